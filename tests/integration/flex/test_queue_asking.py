"""What an account may ask of its jobs, and what operators see of a queue."""

import pytest
from tests.integration.cells.queue_work import ANNA, BERT, MODEL, Work, sweep

from penstock.queue import FlexControl, FlexStats, JobQuery, QueueSettings
from penstock.records.job import JobState
from penstock.records.model import ModelId
from penstock.store import Store

OTHER = ModelId("@test/other")


async def measured(work: Work) -> FlexStats:
    async with work.store.transaction() as tx:
        await work.queue.measure(tx)
    async with work.store.transaction() as tx:
        return (await work.queue.stats(tx))[MODEL]


async def test_a_position_is_counted_within_the_account(store: Store) -> None:
    work = Work(store, QueueSettings(position_max=20))
    await work.submit(50, BERT)
    ids = (await work.submit(50, ANNA)).ids
    await work.serve(4, at_a_time=1)

    async with store.transaction() as tx:
        places = [await work.queue.position(tx, ids[n]) for n in (0, 2, 11, 49)]

    assert places == [None, 1, 10, 20]


async def test_a_page_follows_on_the_page_before(store: Store) -> None:
    work = Work(store, QueueSettings(page_jobs_max=3))
    ids = sorted((await work.submit(5)).ids, reverse=True)
    await work.submit(1, BERT)

    async with store.transaction() as tx:
        first = await work.queue.list_jobs(tx, JobQuery(account=ANNA))
        second = await work.queue.list_jobs(tx, JobQuery(account=ANNA, after=first[-1].id))

    assert [job.id for job in (*first, *second)] == ids


async def test_a_list_takes_every_condition(store: Store) -> None:
    work = Work(store)
    await work.submit(3)
    (running,) = await work.claim()

    async with store.transaction() as tx:
        queued = JobQuery(model=MODEL, state=JobState.QUEUED)
        assert len(await work.queue.list_jobs(tx, queued)) == 2
        assert await work.queue.list_jobs(tx, JobQuery(model=OTHER)) == []
        found = await work.queue.list_jobs(tx, JobQuery(state=JobState.RUNNING, limit=5))

    assert [job.id for job in found] == [running.id]


async def test_those_who_wait_are_told_of_what_has_ended(store: Store) -> None:
    work = Work(store)
    ids = (await work.submit(3)).ids
    claimed = await work.claim(2)
    await work.finish(claimed[:1])

    async with store.transaction() as tx:
        ended = await work.queue.ended(tx, ids)

    assert [(job.id, job.result) for job in ended] == [(claimed[0].id, b'{"answer":1}')]


async def test_a_queue_is_measured(store: Store) -> None:
    work = Work(store)
    await work.submit(10)
    await measured(work)
    first = await measured(work)
    await work.execute("update flex_stats set measured_at = now() - interval '2 seconds'")
    claimed = await work.claim(6)
    await work.finish(claimed[:4], tokens=50)
    await work.execute(
        "update jobs set started_at = created_at + interval '6 minutes',"
        " finished_at = now() - interval '1 second' where id = %s",
        claimed[0].id,
    )
    second = await measured(work)

    assert (first.queued, first.running, first.finished_per_second) == (10, 0, None)
    assert (second.queued, second.running) == (4, 2)
    assert second.finished_per_second == pytest.approx(2, rel=0.2)
    assert second.tokens_per_second == pytest.approx(100, rel=0.2)
    assert second.started_soon == pytest.approx(0.75)
    assert second.oldest_created_at is not None


async def test_a_rate_fades_while_nothing_is_finished(store: Store) -> None:
    work = Work(store)
    await work.submit(10)
    await measured(work)
    await work.execute("update flex_stats set measured_at = now() - interval '1 second'")
    await work.serve(10)
    busy = await measured(work)
    await work.execute("update flex_stats set measured_at = now() - interval '60 seconds'")
    await work.execute("update jobs set finished_at = now() - interval '2 hours'")
    idle = await measured(work)

    assert busy.finished_per_second is not None
    assert idle.finished_per_second is not None
    assert idle.finished_per_second == pytest.approx(busy.finished_per_second / 2.72, rel=0.05)
    assert (idle.queued, idle.oldest_created_at) == (0, None)


async def test_one_who_waits_is_told_how_long_by_its_share(store: Store) -> None:
    work = Work(store)
    ids = (await work.submit(40, ANNA)).ids
    await work.submit(1000, BERT, weight=3)
    await measured(work)
    async with store.transaction() as tx:
        assert await work.queue.eta_seconds(tx, ids[19]) is None
    await work.execute("update flex_stats set finished_per_second = 4")

    async with store.transaction() as tx:
        # Place 20, a quarter of four jobs a second.
        assert await work.queue.eta_seconds(tx, ids[19]) == pytest.approx(20)
    await work.claim(1040)
    async with store.transaction() as tx:
        assert await work.queue.eta_seconds(tx, ids[19]) is None


async def test_what_an_operator_said_is_kept(store: Store) -> None:
    work = Work(store)
    async with store.transaction() as tx:
        assert await work.queue.controls(tx) == {}
        await work.queue.set_control(tx, MODEL, FlexControl(is_paused=True))
        await work.queue.set_control(tx, MODEL, FlexControl(in_flight_max=3))
        assert await work.queue.controls(tx) == {MODEL: FlexControl(False, 3)}


async def test_an_empty_queue_is_swept_and_measured_quietly(store: Store) -> None:
    work = Work(store)
    async with store.transaction() as tx:
        await work.queue.measure(tx)
        assert await work.queue.stats(tx) == {}
        assert await work.queue.find_old(tx) == {}
    swept = await sweep(work)
    assert (swept.requeued, swept.expired, swept.woken, swept.is_full) == (0, 0, 0, False)
