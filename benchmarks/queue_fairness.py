"""Who is served next out of a million queued jobs, half of them one account's.

A hundred accounts with ten jobs each join late: how much the large one has had when they are done,
beside its share. And three accounts with shares of 1, 1 and 3: how far from these they were served.
The last line is JSON.
"""

import asyncio
import json
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import msgspec

from penstock.clock import new_id
from penstock.queue import Claim, Queue, QueueSettings
from penstock.records.account import AccountId
from penstock.records.job import JobEnd, JobId, NewJob, Submission
from penstock.records.model import ModelId
from penstock.records.usage import Usage
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres
from queue_load import ACCOUNTS, MODEL, RESULT, TICKET, account, fill, submission

QUEUED = 1_000_000
SMALL_ACCOUNTS, SMALL_JOBS = 100, 10
WEIGHTED = ModelId("@bench/weighted")
WEIGHTS = (1, 1, 3)
SERVED_BY_WEIGHT = 2000
LARGE = account(0)


class Cell:
    """A queue whose jobs are run as soon as they are claimed, each as large as was estimated."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = Queue(QueueSettings(open_jobs_max=10**7))

    async def submit(self, shared: Submission, jobs: int) -> None:
        new = [NewJob(JobId(new_id()), b"{}", TICKET) for _ in range(jobs)]
        async with self._store.transaction() as tx:
            await self._queue.submit(tx, shared, new)

    async def serve(self, model: ModelId, count: int) -> Counter[AccountId]:
        usage = Usage(TICKET.prompt_tokens_estimate + TICKET.output_tokens_max, 0, 0)
        async with self._store.transaction() as tx:
            claimed = await self._queue.claim(tx, Claim(model, count, "keeper", 60.0))
            ends = [JobEnd(job.id, job.epoch, RESULT, usage=usage) for job in claimed]
            await self._queue.finish(tx, ends)
        return Counter(job.account for job in claimed)


async def small_beside_large(cell: Cell) -> float:
    """What the large account has had when the small ones are done, by what is its share."""
    small = [AccountId(f"{number + ACCOUNTS:032x}") for number in range(SMALL_ACCOUNTS)]
    for name in small:
        shared = msgspec.structs.replace(submission(0), account=name)
        await cell.submit(shared, SMALL_JOBS)
    served: Counter[AccountId] = Counter()
    while sum(served[name] for name in small) < SMALL_ACCOUNTS * SMALL_JOBS:
        served += await cell.serve(MODEL, 100)
    share = served.total() / (ACCOUNTS + SMALL_ACCOUNTS)
    print(f"small ones done after {served.total()} jobs; the large one had {served[LARGE]}")
    return served[LARGE] / share


async def weights_beside_shares(cell: Cell) -> float:
    """How far from its share the worst served account was."""
    for number, weight in enumerate(WEIGHTS):
        shared = msgspec.structs.replace(submission(number), model=WEIGHTED, weight=weight)
        await cell.submit(shared, SERVED_BY_WEIGHT)
    served: Counter[AccountId] = Counter()
    while served.total() < SERVED_BY_WEIGHT:
        served += await cell.serve(WEIGHTED, 20)
    print(f"by weights {WEIGHTS}: {[served[account(n)] for n in range(len(WEIGHTS))]}")
    shares = {account(n): weight / sum(WEIGHTS) for n, weight in enumerate(WEIGHTS)}
    return max(abs(served[name] / served.total() / share - 1) for name, share in shares.items())


async def measure(dsn: str) -> dict[str, float]:
    await migrate(dsn)
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        await fill(store, QUEUED)
        cell = Cell(store)
        had, off = await small_beside_large(cell), await weights_beside_shares(cell)
    finally:
        await store.close()
    return {"large_by_its_share": round(had, 3), "weights_off": round(off, 4)}


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    server = EmbeddedPostgres(folder)
    try:
        figures = asyncio.run(measure(server.start()))
    finally:
        server.stop()
        shutil.rmtree(folder)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
