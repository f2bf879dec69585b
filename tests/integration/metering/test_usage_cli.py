"""`penstock usage` on a real database, from the command line to what is printed."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from tests.integration.cells.usage_rows import HOUR, attempt, id_at, write
from typer.testing import CliRunner, Result

from penstock.cli.commands import app
from penstock.policy import AccountBook
from penstock.store import Store, StoreSettings

Penstock = Callable[..., Result]
PERIOD = ("--since", "2026-11-10", "--until", "2026-11-11")
REQUEST = id_at(HOUR.timestamp())


@pytest.fixture
def account(dsn: str) -> str:
    """An account with two turns of a session."""
    return asyncio.run(_fill(dsn, "Acme", REQUEST))


async def _fill(dsn: str, name: str, request: str = "") -> str:
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        made = await AccountBook(store).create(name)
        at = HOUR.timestamp()
        await write(
            store,
            [
                attempt(made.id, request=request or id_at(at), session="s", workflow="w"),
                attempt(made.id, asked_at=at + 60, session="s", prompt_tokens=1500),
            ],
        )
        return made.id
    finally:
        await store.close()


@pytest.fixture
def penstock(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Penstock]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("penstock.config.SEARCHED", ())
    monkeypatch.setenv("PENSTOCK_STORE_DSN", dsn)
    root = logging.getLogger()
    before = (list(root.handlers), root.level)

    def run(*arguments: str) -> Result:
        done = CliRunner().invoke(app, ["usage", *arguments])
        if not isinstance(done.exception, SystemExit | None):
            raise done.exception
        return done

    yield run
    root.handlers[:], root.level = before


def printed(done: Result) -> Any:
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def test_usage_is_by_account_unless_asked_otherwise(penstock: Penstock, account: str) -> None:
    (row,) = printed(penstock(*PERIOD, "--json"))["rows"]
    assert (row["labels"], row["requests"]) == ({"account": account}, 2)
    by_workflow = printed(penstock(*PERIOD, "--group-by", "workflow", "--json"))["rows"]
    assert {each["labels"]["workflow"] for each in by_workflow} == {"", "w"}
    (whole,) = printed(penstock(*PERIOD, "--group-by", "", "--json"))["rows"]
    assert whole["labels"] == {}
    assert penstock(*PERIOD).stdout.splitlines()[1].startswith("Acme ")
    assert printed(penstock(*PERIOD, "--account", "Acme", "--json"))["rows"] == [row]
    assert penstock(*PERIOD, "--account", "nobody").exit_code == 4
    assert penstock(*PERIOD, "--csv").stdout.startswith("account,requests,")


def test_session_shows_turns_and_slope(penstock: Penstock, account: str) -> None:
    arguments = (*PERIOD, "--session", "s", "--account", account)
    found = printed(penstock(*arguments, "--json"))
    assert [turn["prompt_tokens"] for turn in found["turns"]] == [1000, 1500]
    assert found["prompt_growth_tokens"] == 500
    assert "prompt grows by +500.0 tokens a turn" in penstock(*arguments).stdout
    (row,) = printed(penstock(*arguments, "--group-by", "model", "--json"))["rows"]
    assert row["requests"] == 2


def test_session_is_found_by_itself_where_one_account_has_it(
    penstock: Penstock, account: str, dsn: str
) -> None:
    found = printed(penstock(*PERIOD, "--session", "s", "--json"))
    assert (found["account"], found["turn_count"]) == (account, 2)
    assert penstock(*PERIOD, "--session", "nosuch").exit_code == 4
    by_name = printed(penstock(*PERIOD, "--session", "s", "--account", "Acme", "--json"))
    assert by_name == found
    asyncio.run(_fill(dsn, "Other"))
    both = penstock(*PERIOD, "--session", "s")
    assert both.exit_code == 2
    assert f"Acme ({account})" in both.stderr
    assert "Other (" in both.stderr
    assert "--account" in both.stderr


def test_request_is_followed_to_its_charge(penstock: Penstock, account: str) -> None:
    said = penstock("request", REQUEST).stdout
    assert account in said
    told = "(900 uncached x $0.60 + 100 cached x $0.15 + 50 output x $3.00) / 1 million = $0.000705"
    assert told in said
    for word in ("multiplier", "10000", "nano"):
        assert word not in said
    assert printed(penstock("request", REQUEST, "--json"))["cost_usd"] == "0.000705000"
    assert penstock("request", id_at(1.0)).exit_code == 4


@pytest.mark.usefixtures("account")
def test_export_writes_a_file(penstock: Penstock, tmp_path: Path) -> None:
    done = printed(penstock("export", *PERIOD, "--out", "november.parquet", "--json"))
    table = pq.read_table(tmp_path / "november.parquet")
    assert (done["rows"], set(table["SubAccountName"].to_pylist())) == (table.num_rows, {"Acme"})
    assert "rows" in penstock("export", *PERIOD, "--out", "november.csv").stdout
    assert (tmp_path / "november.csv").read_text().startswith("BilledCost,")
