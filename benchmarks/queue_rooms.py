"""The queue's benchmark through the rooms: submit, claim, and complete with ledger and outbox."""

from collections.abc import Iterator

from penstock.metering import JobCharge, Ledger, charge
from penstock.queue import Claim, Queue, QueueSettings
from penstock.records.job import JobEnd
from penstock.store import Store
from queue_load import (
    BATCH,
    CHARGE,
    LEASE_SECONDS,
    MODEL,
    RESULT,
    USAGE,
    ledger_line,
    new_jobs,
    submission,
)

_WANT = Claim(MODEL, BATCH, "keeper", LEASE_SECONDS)


class Rooms:
    """Workers share the store's pool, as tasks of one process do."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = Queue(QueueSettings(open_jobs_max=10**7))
        self._ledger = Ledger(store, 1000)

    async def work(self, cycles: int, numbers: Iterator[int]) -> None:
        for _ in range(cycles):
            await self._submit(next(numbers))
            await self._run()

    async def _submit(self, number: int) -> None:
        async with self._store.transaction() as tx:
            await self._queue.submit(tx, submission(number), new_jobs())

    async def _run(self) -> None:
        async with self._store.transaction() as tx:
            claimed = await self._queue.claim(tx, _WANT)
        ends = [
            JobEnd(job.id, job.epoch, RESULT, usage=USAGE, charge_nanousd=CHARGE, replica="r")
            for job in claimed
        ]
        lines = {job.id: ledger_line(job.id, job.account, job.epoch) for job in claimed}
        await self._ledger.make_days(list(lines.values()))
        async with self._store.transaction() as tx:
            finished = await self._queue.finish(tx, ends)
            assert len(finished.done) == BATCH, "nobody else has these jobs"
            await charge(tx, self._ledger, [JobCharge(lines[id]) for id in finished.done])
