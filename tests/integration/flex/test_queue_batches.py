"""Batches: their counts, when they end, and what is told of it."""

import msgspec
from tests.integration.cells.queue_work import ANNA, BERT, LOST, MODEL, Work

from penstock.clock import new_id
from penstock.queue import Batch, Batches, NewBatch, OutboxEvent, outbox
from penstock.records.account import KeyId
from penstock.records.job import BatchId, Door, JobEnd
from penstock.store import Store

BATCHES = Batches()


def new_batch(door: Door = Door.WORKERS_AI) -> NewBatch:
    return NewBatch(
        id=BatchId(new_id()),
        account=ANNA,
        key=KeyId("k"),
        door=door,
        deadline=2e9,
        model=MODEL,
        metadata={"a": "b"},
    )


async def opened(work: Work, batch: NewBatch, jobs: int) -> None:
    async with work.store.transaction() as tx:
        await BATCHES.open(tx, batch)
    await work.submit(jobs, batch=batch.id)


async def finalized(work: Work) -> list[Batch]:
    async with work.store.transaction() as tx:
        return await BATCHES.finalize_ready(tx, 10)


async def told(work: Work) -> list[OutboxEvent]:
    async with work.store.transaction() as tx:
        return await outbox.take(tx, 100)


async def test_a_batch_is_found_with_its_counts(store: Store) -> None:
    work = Work(store)
    batch = new_batch()
    await opened(work, batch, 5)
    claimed = await work.claim(3)
    await work.finish(claimed[:1])

    async with store.transaction() as tx:
        found = await BATCHES.find(tx, ANNA, batch.id)
        assert await BATCHES.find(tx, BERT, batch.id) is None

    assert found is not None
    assert (found.total, found.open_jobs, found.running, found.succeeded) == (5, 4, 2, 1)
    assert (found.state, found.door, found.metadata) == ("open", Door.WORKERS_AI, {"a": "b"})


async def test_a_batch_ends_with_its_last_job_and_is_told_once(store: Store) -> None:
    work = Work(store)
    batch = new_batch()
    await opened(work, batch, 2)
    first, last = await work.claim(2)
    await work.finish([first])
    assert await finalized(work) == []
    await work.finish([last])

    assert [each.id for each in await finalized(work)] == [batch.id]
    assert await finalized(work) == []
    assert [(event.type, event.data) for event in await told(work)] == [
        ("cf.workersAi.model.batch.queued", {"id": batch.id, "model": MODEL}),
        ("cf.workersAi.model.batch.succeeded", {"id": batch.id, "model": MODEL}),
    ]
    async with store.transaction() as tx:
        found = await BATCHES.find(tx, ANNA, batch.id)
    assert found is not None
    assert found.state == "ended"


async def test_a_batch_without_a_single_answer_has_failed(store: Store) -> None:
    work = Work(store)
    batch = new_batch()
    await opened(work, batch, 1)
    (job,) = await work.claim()
    async with store.transaction() as tx:
        await work.queue.finish(tx, [JobEnd(job.id, job.epoch, failure=LOST)])

    await finalized(work)

    (_, failed) = await told(work)
    assert failed.type == "cf.workersAi.model.batch.failed"
    assert (failed.data["code"], failed.data["status"]) == (LOST.code, LOST.status)


async def test_a_batch_that_is_still_filled_does_not_end(store: Store) -> None:
    work = Work(store)
    batch = msgspec.structs.replace(new_batch(), is_sealed=False)
    await opened(work, batch, 1)
    await work.serve(1)
    assert await finalized(work) == []

    async with store.transaction() as tx:
        assert await BATCHES.seal(tx, batch.id)

    assert len(await finalized(work)) == 1


async def test_batches_of_files_are_ended_by_those_who_write_their_answers(store: Store) -> None:
    work = Work(store)
    batch = new_batch(Door.BATCHES)
    await opened(work, batch, 1)
    async with store.transaction() as tx:
        assert await BATCHES.end(tx, batch.id) == set()
    await work.serve(1)

    assert await finalized(work) == []
    async with store.transaction() as tx:
        assert [each.id for each in await BATCHES.ready(tx, Door.BATCHES, 10)] == [batch.id]
        assert await BATCHES.end(tx, batch.id) == {batch.id}
    assert await told(work) == []


async def test_a_replayed_batch_is_the_one_that_is_there(store: Store) -> None:
    work = Work(store)
    first, again = (
        msgspec.structs.replace(batch, idempotency_key="once")
        for batch in (new_batch(), new_batch())
    )
    async with store.transaction() as tx:
        assert await BATCHES.open(tx, first) == first.id
    async with store.transaction() as tx:
        assert await BATCHES.open(tx, again) == first.id
        assert await BATCHES.open(tx, first) == first.id

    assert len(await told(work)) == 1


async def test_items_are_read_in_order_page_by_page(store: Store) -> None:
    work = Work(store)
    batch = new_batch()
    await opened(work, batch, 5)
    await work.serve(5)

    async with store.transaction() as tx:
        first = await BATCHES.items(tx, batch.id, -1, 3)
        second = await BATCHES.items(tx, batch.id, first[-1].item, 3)

    assert [job.item for job in (*first, *second)] == [0, 1, 2, 3, 4]
    assert all(job.result for job in first)


async def test_a_job_is_kept_as_long_as_its_batch_is_open(store: Store) -> None:
    work = Work(store)
    batch = new_batch()
    await opened(work, batch, 1)
    await work.serve(1)
    await work.execute("update jobs set finished_at = now() - interval '8 days'")
    count = "select (select count(*) from jobs), (select count(*) from job_batches)"

    async with store.transaction() as tx:
        await work.queue.delete(tx, await work.queue.find_old(tx))
    assert await work.fetch(count) == [(1, 1)]
    await finalized(work)
    await work.execute("update job_batches set ended_at = now() - interval '8 days'")
    async with store.transaction() as tx:
        await work.queue.delete(tx, await work.queue.find_old(tx))

    assert await work.fetch(count) == [(0, 0)]
