"""How much one round of the drain takes on, and what it does about a ledger that went back."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.integration.cells.metering_lines import Worker, attempts, halves

from penstock.metering import Ledger
from penstock.metering.journal_reader import Row
from penstock.store import Store


async def test_drain_takes_what_is_closed_and_comes_to_an_end_under_load(
    store: Store, tmp_path: Path
) -> None:
    """While one batch is written the next row is closed: it must wait for the next round."""
    worker = Worker(store, tmp_path)
    writes = 0

    class Busy(Ledger):
        async def write(
            self, holder: str, rows: Sequence[Row], decisions: Sequence[Row] = ()
        ) -> int:
            nonlocal writes
            writes += 1
            opened, closed = halves()
            worker.end(worker.begin(opened), closed)
            return await super().write(holder, rows, decisions)

    worker.drain._ledger = Busy(store, 10)
    opened, closed = halves()
    worker.end(worker.begin(opened), closed)
    worker.refusals.count(0.0, "a", "k", "why")
    async with asyncio.timeout(20):
        await worker.drain.empty()
    assert (writes, worker.refusals.waiting()) == (1, 0)
    worker.drain._ledger = Ledger(store, 10)
    await worker.drain.finish()


async def test_rows_get_in_after_an_older_database_was_put_back(
    store: Store, tmp_path: Path
) -> None:
    worker = Worker(store, tmp_path)
    for _ in range(2):
        for _ in range(3):
            opened, closed = halves()
            worker.end(worker.begin(opened), closed)
        await worker.drain.empty()
        async with store.transaction() as transaction:
            await transaction.execute("drop table usage_attempts_20261110")
    opened, closed = halves()
    worker.end(worker.begin(opened), closed)
    await worker.drain.finish()
    assert len(await attempts(store)) == 1
    assert worker.drain.rows_unwritable == 0
