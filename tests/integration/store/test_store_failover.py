"""A primary is killed with -9, a standby takes its place: what was acknowledged is still there."""

import asyncio
from collections.abc import Iterator
from typing import LiteralString

import pytest
from tests.chaos.postgres_cluster import PostgresCluster

from penstock.errors import StoreUnavailable
from penstock.store import Store, StoreSettings

_WRITERS = 4
_ROWS_EACH_TURN = 100


@pytest.fixture
def cluster() -> Iterator[PostgresCluster]:
    with PostgresCluster() as started:
        yield started


async def test_no_acknowledged_row_is_lost_when_primaries_are_killed(
    cluster: PostgresCluster,
) -> None:
    store = Store(StoreSettings(dsn=cluster.dsn))
    await store.open()
    heard: asyncio.Queue[int] = asyncio.Queue()
    acknowledged: list[int] = []
    try:
        async with store.transaction() as transaction:
            await transaction.execute("create table rows (id int primary key)")
        async with asyncio.TaskGroup() as group:
            writers = [group.create_task(_write(store, n, heard)) for n in range(_WRITERS)]
            for _ in range(2):
                acknowledged += await _next(heard)
                await asyncio.to_thread(cluster.kill_primary)
                await asyncio.to_thread(cluster.fail_over)
            acknowledged += await _next(heard)
            for writer in writers:
                writer.cancel()
        async with store.transaction() as transaction:
            rows = await transaction.fetch("select id from rows")
    finally:
        await store.close()
    acknowledged += [heard.get_nowait() for _ in range(heard.qsize())]
    assert cluster.failovers == 2
    assert set(acknowledged) <= {row[0] for row in rows}


async def _write(store: Store, first: int, heard: asyncio.Queue[int]) -> None:
    """Rows of its own, one after the other; what is in doubt is written again."""
    insert: LiteralString = "insert into rows values (%s) on conflict do nothing"
    row = first
    while True:
        try:
            async with store.transaction() as transaction:
                await transaction.execute(insert, (row,))
        except StoreUnavailable:
            await asyncio.sleep(0.05)
        else:
            heard.put_nowait(row)
            row += _WRITERS


async def _next(heard: asyncio.Queue[int]) -> list[int]:
    async with asyncio.timeout(30):
        return [await heard.get() for _ in range(_ROWS_EACH_TURN)]
