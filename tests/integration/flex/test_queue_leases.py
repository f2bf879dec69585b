"""A keeper's hold on its jobs: leases, epochs, hand-backs, and what happens when it is lost."""

import asyncio
from itertools import chain

import pytest
from tests.integration.cells.queue_work import LOST, Work, held, lapse, opening_with, retry, sweep

from penstock.clock import SystemClock
from penstock.errors import LeaseLost
from penstock.queue import QueueSettings
from penstock.records.job import ClaimedJob, JobState
from penstock.store import Store


async def test_claimers_that_race_never_get_the_same_job(store: Store) -> None:
    work = Work(store)
    await work.submit(200)

    async def keeper(number: int) -> list[ClaimedJob]:
        claimed: list[ClaimedJob] = []
        while got := await work.claim(7, keeper=f"keeper-{number}", warm=(1, 2)):
            claimed += got
        return claimed

    claimed = list(chain.from_iterable(await asyncio.gather(*(keeper(n) for n in range(8)))))

    assert len(claimed) == 200
    assert len({job.id for job in claimed}) == 200


async def test_a_renewed_lease_does_not_lapse(store: Store) -> None:
    work = Work(store)
    await work.submit(1)
    (job,) = await work.claim(lease_seconds=0)

    async with store.transaction() as tx:
        renewed = await work.queue.renew(tx, held(job), 60)

    assert renewed.kept == {job.id}
    assert (await sweep(work)).requeued == 0


async def test_a_lapsed_job_is_run_by_another_and_the_first_can_write_nothing(
    store: Store,
) -> None:
    work = Work(store)
    await work.submit(1)
    (first,) = await work.claim()

    assert (await lapse(work)).requeued == 1
    (second,) = await work.claim(keeper="keeper-2")
    late = await work.finish([first])

    assert (second.id, second.epoch, second.attempts) == (first.id, 2, 2)
    assert late.done == frozenset()
    async with store.transaction() as tx:
        assert (await work.queue.renew(tx, held(first), 60)).kept == frozenset()
        assert await work.queue.give_back(tx, held(first)) == set()
        with pytest.raises(LeaseLost):
            await work.queue.retry(tx, first.id, first.epoch, LOST)
    assert (await work.finish([second])).done == {second.id}


async def test_a_job_is_finished_once(store: Store) -> None:
    work = Work(store)
    await work.submit(1)
    claimed = await work.claim()

    done = await asyncio.gather(*(work.finish(claimed) for _ in range(5)))

    assert sum(len(each.done) for each in done) == 1
    assert await work.open_jobs() == 0
    assert len(await work.fetch("select from outbox")) == 1


async def test_a_handed_back_job_keeps_its_place_and_its_attempts(store: Store) -> None:
    work = Work(store)
    await work.submit(3)
    first, second = await work.claim(2)

    async with store.transaction() as tx:
        assert await work.queue.give_back(tx, held(first)) == {first.id}
    again = await work.claim(2)

    assert again[0].id == first.id
    assert (again[0].epoch, again[0].attempts) == (2, 1)
    assert second.id not in {job.id for job in again}


async def test_a_deferred_job_waits_and_keeps_its_place(store: Store) -> None:
    work = Work(store)
    await work.submit(2)
    (first,) = await work.claim()

    async with store.transaction() as tx:
        await work.queue.defer(tx, held(first), SystemClock().now() + 600)
    (other,) = await work.claim(5)
    assert other.id != first.id
    await work.submit(1)
    await work.execute("update jobs set not_before = now() where is_deferred")
    assert (await sweep(work)).woken == 1

    assert (await work.claim())[0].id == first.id


async def test_a_deferred_job_is_found_when_nothing_else_waits(store: Store) -> None:
    work = Work(store)
    await work.submit(1)
    (first,) = await work.claim()
    async with store.transaction() as tx:
        await work.queue.defer(tx, held(first), SystemClock().now() - 1)

    assert [job.id for job in await work.claim(5)] == [first.id]


async def test_a_failed_attempt_is_tried_again_after_a_pause_that_grows(store: Store) -> None:
    work = Work(store, QueueSettings(retry_seconds=30, retry_seconds_max=1000))
    await work.submit(1)
    pauses = []
    for _ in range(3):
        (job,) = await work.claim()
        assert await retry(work, job) is JobState.QUEUED
        assert await work.claim() == []
        rows = await work.fetch("select extract(epoch from not_before - now())::float8 from jobs")
        pauses.append(round(rows[0][0] / 30))
        await work.execute("update jobs set not_before = now()")

    assert pauses == [1, 2, 4]


async def test_a_job_fails_for_good_when_its_attempts_are_used_up(store: Store) -> None:
    work = Work(store, QueueSettings(attempts_max=2, retry_seconds=0))
    await work.submit(1)

    (first,) = await work.claim()
    assert await retry(work, first) is JobState.QUEUED
    (second,) = await work.claim()
    async with store.transaction() as tx:
        retried = await work.queue.retry(tx, second.id, second.epoch, LOST)

    assert retried.state is JobState.FAILED
    assert [each.nanousd for each in retried.released] == [100]
    job = await work.find(first.id)
    assert (job.state, job.failure, job.attempts) == (JobState.FAILED, LOST, 2)
    assert await work.open_jobs() == 0


async def test_a_job_whose_next_try_would_come_too_late_fails(store: Store) -> None:
    work = Work(store, QueueSettings(retry_seconds=60))
    await work.submit(1, seconds=30)
    (job,) = await work.claim()

    assert await retry(work, job) is JobState.FAILED


async def test_a_job_that_loses_every_keeper_fails_in_the_end(store: Store) -> None:
    work = Work(store, QueueSettings(attempts_max=3))
    submitted = await work.submit(1)
    for _ in range(3):
        assert len(await work.claim()) == 1
        swept = await lapse(work)

    assert (swept.failed, len(swept.released)) == (1, 1)
    job = await work.find(submitted.ids[0])
    assert job.failure is not None
    assert job.failure.code == "engine_lost"


async def test_a_job_not_begun_before_its_deadline_expires(store: Store) -> None:
    work = Work(store)
    submitted = await work.submit(2, seconds=-1)

    assert await work.claim() == []
    swept = await sweep(work)

    assert (swept.expired, len(swept.released), swept.is_full) == (2, 2, False)
    job = await work.find(submitted.ids[0])
    assert job.failure is not None
    assert (job.state, job.failure.code) == (JobState.EXPIRED, "job_expired")
    assert await work.open_jobs() == 0


async def test_a_running_job_past_its_deadline_may_still_be_finished(store: Store) -> None:
    work = Work(store)
    await work.submit(2)
    first, _ = await work.claim(2)
    await work.execute("update jobs set deadline = now() - interval '1 second'")

    assert (await sweep(work)).expired == 0
    assert (await work.finish([first])).done == {first.id}
    assert (await lapse(work)).expired == 1


async def test_the_sweep_takes_a_bounded_number_at_a_time(store: Store) -> None:
    work = Work(store, QueueSettings(sweep_jobs_max=2))
    await work.submit(3, seconds=-1)

    assert (await sweep(work)).is_full
    assert (await sweep(work)).expired == 1


async def test_a_warm_job_is_taken_first_among_the_next_few(store: Store) -> None:
    work = Work(store, QueueSettings(look_ahead_jobs=4))
    jobs = [opening_with(n) for n in range(10)]
    await work.submit(jobs)

    assert [job.id for job in await work.claim(2, warm=(3,))] == [jobs[0].id, jobs[3].id]
    assert [job.id for job in await work.claim(1, warm=(9,))] == [jobs[1].id]


async def test_a_cold_job_is_not_passed_over_for_ever(store: Store) -> None:
    work = Work(store, QueueSettings(look_ahead_jobs=4))
    jobs = [opening_with(n) for n in range(3)]
    await work.submit(jobs)
    await work.execute(
        "update jobs set created_at = created_at - interval '301 seconds' where id = %s", jobs[0].id
    )

    assert [job.id for job in await work.claim(1, warm=(2,))] == [jobs[0].id]


async def test_a_claim_of_old_jobs_gets_only_those_in_fair_order(store: Store) -> None:
    work = Work(store)
    submitted = await work.submit(5)
    assert await work.claim(5, aged_only=True) == []
    old = {submitted.ids[1], submitted.ids[4]}
    await work.execute(
        "update jobs set created_at = created_at - interval '301 seconds'"
        " where id = any (%s::uuid[])",
        list(old),
    )

    assert [job.id for job in await work.claim(1, aged_only=True)] == [submitted.ids[1]]
    assert [job.id for job in await work.claim(5, aged_only=True)] == [submitted.ids[4]]


async def test_an_old_job_far_behind_young_ones_is_found_by_its_age(store: Store) -> None:
    work = Work(store, QueueSettings(aged_look_jobs=2))
    submitted = await work.submit(5)
    await work.execute(
        "update jobs set created_at = created_at - interval '301 seconds' where id = %s",
        submitted.ids[4],
    )

    assert [job.id for job in await work.claim(1, aged_only=True)] == [submitted.ids[4]]
