"""How jobs end: with an answer, a failure, or because their caller wants them no more."""

import time

import msgspec
from tests.integration.cells.queue_work import (
    ANNA,
    BERT,
    LOST,
    TOKENS,
    Work,
    held,
    lapse,
    new_job,
    retry,
)

from penstock.clock import new_id, timestamp_of
from penstock.queue import Batches, NewBatch, QueueSettings, outbox
from penstock.records.account import KeyId
from penstock.records.job import BatchId, Door, JobEnd, JobId, JobState, Released
from penstock.records.usage import Usage
from penstock.store import Store


async def test_an_answer_is_kept_with_its_usage_and_the_question_is_forgotten(
    store: Store,
) -> None:
    work = Work(store)
    await work.submit(1)
    (claimed,) = await work.claim()
    usage = Usage(80, 11, 64)
    end = JobEnd(claimed.id, claimed.epoch, b"answer", usage=usage, charge_nanousd=5, replica="r")

    async with store.transaction() as tx:
        finished = await work.queue.finish(tx, [end])

    assert finished.done == {claimed.id}
    assert finished.released == ()
    job = await work.find(claimed.id)
    assert (job.state, job.result, job.usage) == (JobState.SUCCEEDED, b"answer", usage)
    assert (job.charge_nanousd, job.failure) == (5, None)
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.created_at <= job.started_at <= job.finished_at
    assert await work.fetch("select payload, held from jobs") == [(b"", 0)]


async def test_a_failure_is_kept_as_the_caller_is_told(store: Store) -> None:
    work = Work(store)
    await work.submit(1)
    (claimed,) = await work.claim()

    async with store.transaction() as tx:
        end = JobEnd(claimed.id, claimed.epoch, failure=LOST)
        assert (await work.queue.finish(tx, [end])).done == {claimed.id}

    job = await work.find(claimed.id)
    assert (job.state, job.failure, job.usage) == (JobState.FAILED, LOST, None)
    assert job.last_error is not None
    assert (job.last_error.code, job.last_error.message) == (LOST.code, LOST.message)


async def test_the_last_error_is_kept_with_a_job_that_is_tried_again(store: Store) -> None:
    work = Work(store)
    await work.submit(1)
    (claimed,) = await work.claim()
    assert (await work.find(claimed.id)).last_error is None

    odd = msgspec.structs.replace(LOST, message="it broke\0 here")
    async with store.transaction() as tx:
        await work.queue.retry(tx, claimed.id, claimed.epoch, odd)

    job = await work.find(claimed.id)
    assert (job.state, job.attempts, job.failure) == (JobState.QUEUED, 1, None)
    assert job.last_error is not None
    assert (job.last_error.code, job.last_error.message) == (LOST.code, "it broke here")
    await work.execute("update jobs set is_deferred = false, not_before = null")
    await work.finish(await work.claim())
    job = await work.find(claimed.id)
    assert (job.state, job.attempts, job.failure) == (JobState.SUCCEEDED, 2, None)
    assert job.last_error is not None


async def test_the_last_error_of_a_lost_keeper_s_job_says_so(store: Store) -> None:
    work = Work(store)
    await work.submit(1)
    (claimed,) = await work.claim()
    assert (await lapse(work)).requeued == 1
    job = await work.find(claimed.id)
    assert (job.state, job.attempts) == (JobState.QUEUED, 1)
    assert job.last_error is not None
    assert job.last_error.code == "engine_lost"
    async with store.transaction() as tx:
        cancelled = await work.queue.cancel(tx, ANNA, claimed.id)
    assert cancelled is not None
    assert cancelled.job.last_error == job.last_error


async def test_a_completion_corrects_its_account_s_tag(store: Store) -> None:
    work = Work(store)
    await work.submit(4, weight=2)
    assert await work.tag() == 4 * TOKENS / 2

    await work.finish(await work.claim(2), tokens=TOKENS + 30)

    assert await work.tag() == 4 * TOKENS / 2 + 2 * 30 / 2


async def test_a_waiting_job_is_cancelled_at_once(store: Store) -> None:
    work = Work(store)
    submitted = await work.submit(2)

    async with store.transaction() as tx:
        cancelled = await work.queue.cancel(tx, ANNA, submitted.ids[0])

    assert cancelled is not None
    assert cancelled.job.state is JobState.CANCELLED
    asked_at = timestamp_of(submitted.ids[0])
    assert cancelled.released == (Released(ANNA, KeyId("k"), "", "", (7,), 100, asked_at),)
    assert [job.id for job in await work.claim(5)] == [submitted.ids[1]]
    assert await work.open_jobs() == 1


async def test_a_running_job_that_is_cancelled_ends_so_whatever_its_keeper_writes(
    store: Store,
) -> None:
    work = Work(store)
    await work.submit(1)
    (claimed,) = await work.claim()

    async with store.transaction() as tx:
        cancelled = await work.queue.cancel(tx, ANNA, claimed.id)
        renewed = await work.queue.renew(tx, held(claimed), 60)
    assert cancelled is not None
    assert cancelled.job.is_cancelling
    assert (cancelled.job.state, cancelled.released) == (JobState.RUNNING, ())
    assert renewed.kept == frozenset()
    assert renewed.cancelled == {claimed.id}
    end = JobEnd(claimed.id, claimed.epoch, b"late", usage=Usage(1, 1), charge_nanousd=9)
    async with store.transaction() as tx:
        finished = await work.queue.finish(tx, [end])

    assert finished.done == frozenset()
    assert finished.cancelled == {claimed.id}
    assert [each.nanousd for each in finished.released] == [100]
    job = await work.find(claimed.id)
    assert (job.state, job.result, job.charge_nanousd) == (JobState.CANCELLED, b"", 0)
    assert (job.usage, job.is_cancelling, job.last_error) == (None, False, None)


async def test_a_cancelling_job_is_neither_tried_again_nor_handed_back(store: Store) -> None:
    work = Work(store)
    await work.submit(3)
    jobs = await work.claim(3)
    async with store.transaction() as tx:
        for job in jobs:
            await work.queue.cancel(tx, ANNA, job.id)

    assert await retry(work, jobs[0]) is JobState.CANCELLED
    async with store.transaction() as tx:
        assert await work.queue.give_back(tx, held(jobs[1])) == set()
    swept = await lapse(work)

    assert (swept.cancelled, swept.requeued, len(swept.released)) == (2, 0, 2)
    assert await work.open_jobs() == 0


async def test_a_job_that_has_ended_stays_as_it_ended(store: Store) -> None:
    work = Work(store)
    await work.submit(1)
    claimed = await work.claim()
    await work.finish(claimed)

    async with store.transaction() as tx:
        cancelled = await work.queue.cancel(tx, ANNA, claimed[0].id)

    assert cancelled is not None
    assert (cancelled.job.state, cancelled.released) == (JobState.SUCCEEDED, ())


async def test_another_account_s_job_can_neither_be_seen_nor_cancelled(store: Store) -> None:
    work = Work(store)
    submitted = await work.submit(1, ANNA)

    async with store.transaction() as tx:
        assert await work.queue.find(tx, BERT, submitted.ids[0]) is None
        assert await work.queue.cancel(tx, BERT, submitted.ids[0]) is None
        assert await work.queue.cancel(tx, ANNA, JobId(new_id())) is None

    assert (await work.find(submitted.ids[0])).state is JobState.QUEUED


async def test_a_cancel_sets_the_tag_to_the_highest_still_queued(store: Store) -> None:
    work = Work(store)
    submitted = await work.submit(10)
    assert await work.tag() == 10 * TOKENS

    async with store.transaction() as tx:
        for job in submitted.ids[4:]:
            await work.queue.cancel(tx, ANNA, job)

    assert await work.tag() == 4 * TOKENS


async def test_a_cancel_of_all_sets_the_tag_to_the_clock(store: Store) -> None:
    work = Work(store)
    await work.submit(2, BERT)
    await work.finish(await work.claim(2))
    submitted = await work.submit(10, ANNA)
    assert await work.tag() == 12 * TOKENS

    async with store.transaction() as tx:
        for job in submitted.ids:
            await work.queue.cancel(tx, ANNA, job)

    assert await work.tag() == 2 * TOKENS


async def test_a_batch_of_ten_thousand_is_cancelled_as_soon_as_submitted(store: Store) -> None:
    work = Work(store, QueueSettings(sweep_jobs_max=10_000))
    batches = Batches()
    batch = NewBatch(
        id=BatchId(new_id()), account=ANNA, key=KeyId("k"), door=Door.BATCHES, deadline=2e9
    )
    async with store.transaction() as tx:
        await batches.open(tx, batch)
    began = time.monotonic()
    for start in range(0, 10_000, 1000):
        jobs = [new_job(item=start + n) for n in range(1000)]
        await work.submit(jobs, batch=batch.id)
    submitted = time.monotonic() - began
    running = await work.claim(10)
    await work.finish(running[:5])

    began = time.monotonic()
    async with store.transaction() as tx:
        cancelled = await work.queue.cancel_batch(tx, ANNA, batch.id)
    took = time.monotonic() - began

    assert cancelled is not None
    assert (cancelled.count, len(cancelled.released)) == (9995, 9990)
    async with store.transaction() as tx:
        found = await batches.find(tx, ANNA, batch.id)
    assert found is not None
    assert (found.total, found.open_jobs, found.running) == (10_000, 5, 5)
    assert (found.succeeded, found.cancelled, found.is_cancelling) == (5, 9990, True)
    assert await work.open_jobs() == 5
    # 0.3 s on a quiet machine; job by job it would take more than ten times as long.
    assert took < 3 * submitted


async def test_a_batch_of_nobody_s_cannot_be_cancelled(store: Store) -> None:
    work = Work(store)
    async with store.transaction() as tx:
        assert await work.queue.cancel_batch(tx, None, BatchId(new_id())) is None


async def test_every_end_of_a_single_job_is_told_once(store: Store) -> None:
    work = Work(store, QueueSettings(attempts_max=1))
    (late,) = (await work.submit(1, seconds=-1)).ids
    (cancelled,) = (await work.submit(1)).ids
    async with store.transaction() as tx:
        await work.queue.cancel(tx, ANNA, cancelled)
    await work.submit(2)
    good, bad = await work.claim(2)
    await work.finish([good])
    await lapse(work)

    async with store.transaction() as tx:
        events = await outbox.take(tx, 100)
        assert await outbox.take(tx, 100) == []

    told = {(event.type, event.data["id"]) for event in events}
    assert len(events) == 4
    assert told == {
        ("job.succeeded", good.id),
        ("job.failed", bad.id),
        ("job.cancelled", cancelled),
        ("job.expired", late),
    }
    assert all(event.account == ANNA for event in events)


async def test_what_is_kept_no_longer_is_deleted_and_its_objects_named(store: Store) -> None:
    work = Work(store)
    job = msgspec.structs.replace(new_job(), payload_object="in")
    await work.submit([job])
    (claimed,) = await work.claim()
    async with store.transaction() as tx:
        await work.queue.finish(tx, [JobEnd(claimed.id, claimed.epoch, result_object="out")])
        assert await work.queue.find_old(tx) == {}
    await work.execute("update jobs set finished_at = now() - interval '8 days'")

    async with store.transaction() as tx:
        old = await work.queue.find_old(tx)
        assert old == {claimed.id: ["in", "out"]}
        await work.queue.delete(tx, old)
        assert await work.queue.find(tx, None, claimed.id) is None
