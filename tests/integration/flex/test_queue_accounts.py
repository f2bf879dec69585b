"""Claims for a dedicated replica: only jobs of its accounts, whatever waits before them."""

import msgspec
import pytest
from tests.integration.cells.queue_work import ANNA, BERT, MODEL, Work

from penstock.queue import Claim, Queue, QueueSettings
from penstock.store import Store


async def claimed(work: Work, store: Store, **fields: object) -> set[str]:
    base = Claim(model=MODEL, count=100, keeper="k", lease_seconds=60)
    async with store.transaction() as tx:
        jobs = await Queue(QueueSettings()).claim(tx, msgspec.structs.replace(base, **fields))
    return {job.account for job in jobs}


@pytest.mark.parametrize("is_aged", [False, True])
async def test_only_jobs_of_its_accounts_are_claimed(store: Store, is_aged: bool) -> None:
    work = Work(store)
    await work.submit(50, ANNA)
    await work.submit(5, BERT)
    if is_aged:
        await work.execute("update jobs set created_at = created_at - interval '1 day'")
    assert await claimed(work, store, accounts=(BERT,), aged_only=is_aged) == {BERT}
    assert await claimed(work, store, accounts=(BERT,), aged_only=is_aged) == set()
    assert await claimed(work, store, aged_only=is_aged) == {ANNA}
