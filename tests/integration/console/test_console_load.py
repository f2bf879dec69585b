"""Fifty people who watch live pages ask no more of Postgres than a few do."""

import asyncio
from pathlib import Path

import httpx
import psycopg
import pytest
from tests.integration.cells.control_process import ControlProcess, control_process
from tests.integration.console.reader_crowd import (
    CROWD_SETTINGS,
    LIVE_SECONDS,
    READERS,
    make_keys,
    sign_in_all,
)

from penstock.store.embedded import EmbeddedPostgres
from penstock.store.migrate import migrate

# Servers of their own are begun and stopped, which takes long on a busy machine.
pytestmark = pytest.mark.timeout(180)

_SECONDS = 10.0
_STATEMENTS_PER_SECOND_MAX = 10.0


@pytest.fixture
def dsn(own_postgres: EmbeddedPostgres) -> str:
    """A server whose log has each statement; nobody else uses it."""
    found = own_postgres.start()
    asyncio.run(migrate(found))
    with psycopg.connect(found, autocommit=True) as connection:
        connection.execute("alter system set log_statement = 'all'")
        connection.execute("alter system set log_line_prefix = '%a %p '")
        connection.execute("select pg_reload_conf()")
    return found


@pytest.mark.parametrize("path", ["/console/fleet", "/console/flex"])
def test_fifty_readers_share_their_readings(
    dsn: str, own_postgres: EmbeddedPostgres, tmp_path: Path, path: str, full: bool
) -> None:
    """Each has a key of their own."""
    if path.endswith("flex") and not full:
        pytest.skip("the second page: `make nightly`, or --full")
    secrets = asyncio.run(make_keys(dsn))
    with control_process(dsn, tmp_path, CROWD_SETTINGS) as control:
        rate, pages = asyncio.run(_measured(control, own_postgres, secrets, path))
    print(f"{path}: {pages} pages in {_SECONDS:.0f} s, {rate:.1f} statements/s of them")
    # A busy machine answers more slowly, and is asked less.
    assert pages > 0.4 * READERS * _SECONDS / LIVE_SECONDS
    assert rate <= _STATEMENTS_PER_SECOND_MAX


async def _measured(
    control: ControlProcess, server: EmbeddedPostgres, secrets: list[str], path: str
) -> tuple[float, int]:
    """Return the statements a second that readers add, and how many parts of pages they got."""
    async with httpx.AsyncClient(base_url=control.url, trust_env=False, timeout=20) as client:
        crowd = await sign_in_all(client, secrets)
        await asyncio.sleep(2)
        idle = await _statements(server, 5.0)
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(crowd.watch(path, _SECONDS))
            counted = await _statements(server, _SECONDS)
            watching.cancel()
    return counted / _SECONDS - idle / 5.0, crowd.pages


async def _statements(server: EmbeddedPostgres, seconds: float) -> int:
    """Return how many statements of the cell's processes the server logs in a time."""
    log = _log_of(server)
    began = log.stat().st_size
    await asyncio.sleep(seconds)
    lines = log.read_bytes()[began:].splitlines()
    found = [
        line
        for line in lines
        if line.startswith(b"penstock ") and (b"statement: " in line or b"execute " in line)
    ]
    # The beginnings and ends of transactions and the pool's own asking are none of a page's.
    return sum(not line.rstrip().endswith((b"BEGIN", b"COMMIT", b"statement:")) for line in found)


def _log_of(server: EmbeddedPostgres) -> Path:
    with psycopg.connect(server.dsn) as connection:
        row = connection.execute("select current_setting('data_directory')").fetchone()
    assert row is not None
    return Path(str(row[0])).parent / "postgres.log"
