"""Accounts share the queue by weight, whatever they have queued, cancelled, or joined late."""

import pytest
from tests.integration.cells.queue_work import ANNA, BERT, TOKENS, Work, new_job

from penstock.clock import new_id
from penstock.queue import Batches, NewBatch
from penstock.records.account import AccountId, KeyId
from penstock.records.job import BatchId, Door, Priority
from penstock.store import Store

LARGE = AccountId("c" * 32)


def small(number: int) -> AccountId:
    return AccountId(f"{number:032x}")


async def test_small_accounts_are_done_while_a_large_one_has_had_its_share(store: Store) -> None:
    work = Work(store)
    await work.fill(LARGE, 50_000)
    for number in range(100):
        await work.submit(10, small(number))

    # 101 accounts of equal weight: ten rounds of 101 serve each of them ten times.
    served = await work.serve(10 * 101, at_a_time=50)

    assert all(served[small(number)] == 10 for number in range(100))
    assert served[LARGE] == 10


async def test_weights_are_honoured(store: Store) -> None:
    work = Work(store)
    carl = AccountId("d" * 32)
    await work.submit(1000, ANNA)
    await work.submit(1000, BERT)
    await work.submit(1000, carl, weight=3)

    served = await work.serve(1000, at_a_time=20)

    assert served[ANNA] == pytest.approx(200, abs=10)
    assert served[BERT] == pytest.approx(200, abs=10)
    assert served[carl] == pytest.approx(600, abs=30)


async def test_shares_are_of_tokens_not_of_jobs(store: Store) -> None:
    work = Work(store)
    await work.submit([new_job(100) for _ in range(500)], ANNA)
    await work.submit([new_job(400) for _ in range(500)], BERT)

    served = await work.serve(500)

    assert served[ANNA] == pytest.approx(400, abs=20)
    assert served[BERT] == pytest.approx(100, abs=5)


async def test_one_who_joins_late_gets_its_share_at_once_and_no_more(store: Store) -> None:
    work = Work(store)
    await work.submit(1000, ANNA)
    await work.serve(300)

    await work.submit(500, BERT)
    served = await work.serve(200)

    assert served[BERT] == pytest.approx(100, abs=5)


async def test_one_who_was_away_has_saved_nothing_up(store: Store) -> None:
    work = Work(store)
    await work.submit(10, BERT)
    await work.submit(500, ANNA)
    await work.serve(300)

    await work.submit(100, BERT)
    served = await work.serve(100)

    assert served[BERT] == pytest.approx(50, abs=3)


async def test_one_who_cancels_ten_thousand_is_not_starved(store: Store) -> None:
    work = Work(store)
    batch = NewBatch(
        id=BatchId(new_id()), account=ANNA, key=KeyId("k"), door=Door.BATCHES, deadline=2e9
    )
    async with store.transaction() as tx:
        await Batches().open(tx, batch)
    for start in range(0, 10_000, 1000):
        await work.submit([new_job(item=start + n) for n in range(1000)], ANNA, batch=batch.id)
    await work.submit(1000, BERT)
    await work.serve(100)
    is_left = True
    while is_left:
        async with store.transaction() as tx:
            round_ = await work.queue.cancel_batch(tx, ANNA, batch.id)
        assert round_ is not None
        is_left = round_.count > 0

    await work.submit(100, ANNA)
    served = await work.serve(100)

    assert served[ANNA] == pytest.approx(50, abs=3)


async def test_an_urgent_priority_goes_first_and_moves_only_its_own_clock(store: Store) -> None:
    work = Work(store)
    await work.submit(1000, ANNA, priority=Priority.BATCH)
    await work.submit(300, BERT, priority=Priority.FLEX)

    assert await work.serve(300) == {BERT: 300}
    await work.submit(100, BERT, priority=Priority.BATCH)
    served = await work.serve(100)

    assert served[ANNA] == pytest.approx(50, abs=3)


async def test_one_whose_jobs_turn_out_small_gets_the_rest_of_its_share(store: Store) -> None:
    work = Work(store)
    await work.submit(100, ANNA)
    before = await work.tag(ANNA)

    await work.finish(await work.claim(10), tokens=10)

    assert await work.tag(ANNA) == pytest.approx(before - 10 * (TOKENS - 10))
