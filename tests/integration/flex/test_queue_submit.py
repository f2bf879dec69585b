"""Submitting: all or nothing, each job once, within the account's limit."""

import asyncio

import msgspec
import pytest
from tests.integration.cells.queue_work import ANNA, BERT, MODEL, Work, new_job, opening_with

from penstock.clock import new_id
from penstock.errors import QueueFull
from penstock.queue import QueueSettings
from penstock.records.job import BatchId, JobId, JobState, NewJob
from penstock.store import Store


async def test_a_submitted_job_is_claimed_as_it_was_given(store: Store) -> None:
    work = Work(store)
    job = msgspec.structs.replace(opening_with(2**64 - 5), payload=b'{"messages":[]}')

    submitted = await work.submit([job])
    (claimed,) = await work.claim(5)

    assert submitted.ids == (job.id,)
    assert submitted.added == 1
    assert (claimed.id, claimed.payload, claimed.ticket) == (job.id, job.payload, job.ticket)
    assert (claimed.account, claimed.model, claimed.epoch, claimed.attempts) == (ANNA, MODEL, 1, 1)


async def test_a_thousand_jobs_keep_their_order(store: Store) -> None:
    work = Work(store)

    submitted = await work.submit(1000)
    claimed = await work.claim(1000)

    assert [job.id for job in claimed] == list(submitted.ids)


async def test_a_replayed_submission_adds_and_moves_nothing(store: Store) -> None:
    work = Work(store)
    first = await work.submit([new_job(key="one"), new_job(key="two")])
    tag, open_jobs = await work.tag(), await work.open_jobs()

    again = await work.submit([new_job(key="one"), new_job(key="two")])

    assert again.ids == first.ids
    assert again.added == 0
    assert (await work.tag(), await work.open_jobs()) == (tag, open_jobs)


async def test_a_replay_that_brings_more_adds_only_that(store: Store) -> None:
    work = Work(store)
    first = await work.submit([new_job(key="one")])
    tag = await work.tag()

    again = await work.submit([new_job(key="one"), new_job(key="two")])

    assert again.ids[0] == first.ids[0]
    assert again.new == {again.ids[1]}
    assert await work.tag() == pytest.approx(tag + 100)


async def test_the_same_key_twice_in_one_submission_is_one_job(store: Store) -> None:
    work = Work(store)

    submitted = await work.submit([new_job(key="one"), new_job(key="one"), new_job()])

    assert submitted.ids[0] == submitted.ids[1]
    assert submitted.added == 2
    assert await work.open_jobs() == 2


async def test_the_same_key_of_another_account_is_another_job(store: Store) -> None:
    work = Work(store)

    await work.submit([new_job(key="one")], ANNA)
    other = await work.submit([new_job(key="one")], BERT)

    assert other.added == 1


async def test_an_item_of_a_batch_is_added_once(store: Store) -> None:
    work = Work(store)
    batch = BatchId(new_id())

    first = await work.submit(3, batch=batch)
    again = await work.submit(4, batch=batch)

    assert again.ids[:3] == first.ids
    assert again.added == 1


async def test_a_job_that_has_ended_is_not_run_again_by_a_replay(store: Store) -> None:
    work = Work(store)
    first = await work.submit([new_job(key="one")])
    await work.finish(await work.claim())

    again = await work.submit([new_job(key="one")])

    assert again.ids == first.ids
    assert (await work.find(first.ids[0])).state is JobState.SUCCEEDED
    assert await work.claim() == []


async def test_beyond_the_limit_nothing_is_added_and_what_is_left_is_said(store: Store) -> None:
    work = Work(store, QueueSettings(open_jobs_max=5))
    await work.submit(3)
    tag = await work.tag()

    with pytest.raises(QueueFull, match=r"may have 5 jobs.*; 2 more would.*these are 3"):
        await work.submit(3)

    assert await work.open_jobs() == 3
    assert await work.tag() == tag
    assert (await work.submit(2)).added == 2


async def test_a_full_queue_still_answers_a_replay(store: Store) -> None:
    work = Work(store, QueueSettings(open_jobs_max=1))
    first = await work.submit([new_job(key="one")])

    assert (await work.submit([new_job(key="one")])).ids == first.ids


async def test_a_job_that_ends_makes_room_for_another(store: Store) -> None:
    work = Work(store, QueueSettings(open_jobs_max=1))
    await work.submit(1)
    await work.finish(await work.claim())

    assert (await work.submit(1)).added == 1


async def test_submissions_that_race_stay_within_the_limit_and_lose_none(store: Store) -> None:
    work = Work(store, QueueSettings(open_jobs_max=50))

    async def one() -> int:
        try:
            return (await work.submit(10)).added
        except QueueFull:
            return 0

    added = await asyncio.gather(*(one() for _ in range(20)))

    assert sum(added) == 50
    assert await work.open_jobs() == 50


async def test_replays_that_race_add_a_job_once(store: Store) -> None:
    work = Work(store)

    def jobs() -> list[NewJob]:
        return [new_job(key=f"key {n}") for n in range(20)]

    submitted = await asyncio.gather(*(work.submit(jobs()) for _ in range(10)))

    assert len({each.ids for each in submitted}) == 1
    assert sum(each.added for each in submitted) == 20
    assert len(await work.claim(100)) == 20


async def test_large_payloads_arrive_whole(store: Store) -> None:
    work = Work(store)
    payload = bytes(range(256)) * 4096
    job = NewJob(JobId(new_id()), payload, new_job().ticket)

    await work.submit([job])

    assert (await work.claim())[0].payload == payload


async def test_nothing_may_be_submitted_claimed_renewed_and_finished(store: Store) -> None:
    work = Work(store)

    assert (await work.submit([])).ids == ()
    assert await work.claim(0) == []
    assert (await work.finish([])).done == frozenset()
    async with store.transaction() as tx:
        assert (await work.queue.renew(tx, [], 60)).kept == frozenset()
        assert await work.queue.give_back(tx, []) == set()
        assert await work.queue.ended(tx, []) == []
