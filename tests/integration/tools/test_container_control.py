"""Containers as operators and control see them: listed, stopped, charged, ended and forgotten."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from tests.integration.cells.commands import Penstock, read
from tests.integration.cells.container_rooms import container_rooms, tools_settings
from tests.integration.cells.control_process import control_process
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.imitated_sandbox import ImitatedSandbox, sandbox_settings
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.tools import AccountContainer
from penstock.tools.container_ids import shown_container


@pytest.fixture
def host() -> Iterator[ImitatedSandbox]:
    with ImitatedSandbox() as running:
        yield running


@pytest.fixture
def remote(
    dsn: str, host: ImitatedSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Penstock]:
    settings = {
        **sandbox_settings(tmp_path, host),
        "tools.container_usd_per_gb_minute": "0.6",
    }
    with control_process(dsn, tmp_path, settings) as control:
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("PENSTOCK_OPERATOR_URL", control.url)
        monkeypatch.setenv("PENSTOCK_OPERATOR_KEY", control.keys.operator)
        yield lambda *arguments: CliRunner().invoke(app, list(arguments))


async def made(dsn: str, folder: Path, host: ImitatedSandbox, count: int) -> list[AccountContainer]:
    """Containers of a new account, each with a file."""
    async with container_rooms(dsn, folder, tools_settings(folder, host)) as rooms:
        found = [await rooms.create(name=f"box {number}") for number in range(count)]
        for container in found:
            await rooms.book.put_file(container, "f", b"content")
        return found


def value(dsn: str, statement: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def test_operators_list_stop_and_forget(
    remote: Penstock, dsn: str, tmp_path: Path, host: ImitatedSandbox
) -> None:
    first, second = asyncio.run(made(dsn, tmp_path, host, 2))
    listed = read(remote("containers", "list", "--json"))
    assert [each["id"] for each in listed] == [
        shown_container(second.id),
        shown_container(first.id),
    ]
    assert listed[0]["isolation"] == "namespaces"
    assert "running" in remote("containers", "list").stdout
    stopped = read(remote("containers", "stop", shown_container(first.id), "--json"))
    assert stopped == {"id": shown_container(first.id), "stopped": True}
    assert list(host.containers) == [second.id.replace("-", "")]
    assert len(read(remote("containers", "list", "--json"))) == 1
    assert len(read(remote("containers", "list", "--ended", "--json"))) == 2
    assert value(dsn, "select count(*) from container_files") == 2
    assert remote("account", "forget", first.account, "--yes", "--json").exit_code == 0
    assert not host.containers
    assert value(dsn, "select count(*) from container_files") == 0
    assert not [path for path in (tmp_path / "objects").rglob("*") if path.is_file()]


@pytest.mark.timeout(120)
def test_control_ends_charges_and_shows_by_itself(
    remote: Penstock, dsn: str, tmp_path: Path, host: ImitatedSandbox
) -> None:
    first, _ = asyncio.run(made(dsn, tmp_path, host, 2))
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "update containers set created_at = now() - interval '2 minutes',"
            " charged_until = now() - interval '2 minutes' where id = %s",
            (first.id,),
        )
    host.reboot()
    expired = "select count(*) from containers where state = 'expired'"
    eventually(lambda: value(dsn, expired) == 2, 60)
    charged = "select coalesce(sum(charge_nanousd), 0)::bigint from container_usage"
    eventually(lambda: value(dsn, charged) >= 1_200_000_000, 60)
    [used] = json.loads(remote("containers", "usage", "--json").stdout)["usage"]
    assert used["account"] == first.account
    assert used["charge_nanousd"] == value(dsn, charged)
    assert "$1." in remote("containers", "usage").stdout
