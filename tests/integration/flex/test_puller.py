"""Flex work on scripted engines: run and billed once, giving way, moved on when a keeper dies."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.cells.flex_keeper import (
    FlexCell,
    KeeperProcess,
    live_claim,
    short_folder,
)
from tests.integration.cells.signals_worker import eventually

from penstock.policy import AccountBook, KeyBook
from penstock.queue import FlexControl, QueueSettings
from penstock.records.job import JobState
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres
from penstock.testing import ScriptedEngine

_CHARGES = "select count(*) from usage_attempts where charge_nanousd > 0"


@pytest.fixture
async def flex(store: Store, dsn: str, tmp_path: Path) -> AsyncIterator[FlexCell]:
    with short_folder() as signals:
        cell = FlexCell(store, dsn, tmp_path, signals)
        await cell.set_up()
        yield cell


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(slots=8, log_limit=1000) as made:
        yield made


async def test_jobs_are_run_and_billed_once(flex: FlexCell, engine: ScriptedEngine) -> None:
    jobs = await flex.submit(40, {"tokens": 5})
    async with flex.keeper(flex.config([engine])) as station:
        await flex.wait_for(JobState.SUCCEEDED, 40)
        assert station.counts.started == 40
        await eventually(lambda: station.counts.succeeded == 40)
    job = await flex.job(jobs[0])
    answer = msgspec.json.decode(await flex.result_of(job))
    assert answer["object"] == "chat.completion"
    assert job.usage is not None
    assert job.charge_nanousd > 0
    assert await flex.number(_CHARGES) == 40
    assert await flex.number("select sum(charge_nanousd) from usage_attempts") == await flex.number(
        "select sum(charge_nanousd) from usage_hours"
    )
    assert engine.state().finished == 40


async def test_jobs_stand_behind_what_is_wanted_now_inside_the_engine(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    await flex.submit(1)
    async with flex.keeper(flex.config([engine])):
        await flex.wait_for(JobState.SUCCEEDED, 1)
    request = engine.state().last_request
    assert request is not None
    assert msgspec.json.decode(request["body"])["priority"] == 10


async def test_what_the_engine_refuses_fails_at_once_by_its_name(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    jobs = await flex.submit(1, {"status": 400, "message": "too long"})
    async with flex.keeper(flex.config([engine])):
        await flex.wait_for(JobState.FAILED, 1)
    failure = (await flex.job(jobs[0])).failure
    assert failure is not None
    assert (failure.code, failure.message) == ("invalid_request", "too long")
    assert await flex.number(_CHARGES) == 0


async def test_a_revoked_key_and_a_blocked_account_fail_their_jobs(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    jobs = await flex.submit(1)
    await KeyBook(flex.store).revoke(flex.key)
    async with flex.keeper(flex.config([engine])):
        await flex.wait_for(JobState.FAILED, 1)
    failure = (await flex.job(jobs[0])).failure
    assert failure is not None
    assert failure.code == "unauthenticated"
    assert engine.state().requests == 0


async def test_a_lost_engine_is_tried_again(flex: FlexCell, engine: ScriptedEngine) -> None:
    flex.queue_settings = QueueSettings(retry_seconds=0.1)
    engine.control(cut_before_head=True, times=1)
    jobs = await flex.submit(1)
    async with flex.keeper(flex.config([engine])) as station:
        await flex.wait_for(JobState.SUCCEEDED, 1)
        assert station.counts.retried == 1
    assert (await flex.job(jobs[0])).attempts == 2
    assert await flex.number(_CHARGES) == 1


async def test_a_cancelled_job_is_stopped_at_the_engine(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    jobs = await flex.submit(1, {"tokens": 1000, "interval": 0.1})
    async with flex.keeper(flex.config([engine])) as station:
        await flex.wait_for(JobState.RUNNING, 1)
        await eventually(lambda: engine.state().running == 1)
        async with flex.store.transaction() as transaction:
            await flex.queue.cancel(transaction, None, jobs[0])
        await flex.wait_for(JobState.CANCELLED, 1)
        await eventually(lambda: engine.state().aborted == 1)
        assert station.counts.cancelled == 1
    assert await flex.number(_CHARGES) == 0


async def test_an_operators_pause_and_limit_are_heeded_within_two_seconds(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    await flex.control(FlexControl(is_paused=True))
    async with flex.keeper(flex.config([engine])) as station:
        await asyncio.sleep(0.5)
        await flex.submit(6, {"tokens": 10, "interval": 0.1})
        await asyncio.sleep(1.0)
        assert station.counts.started == 0
        await flex.control(FlexControl(in_flight_max=2))
        await eventually(lambda: station.counts.started == 2, 2.0)
        await asyncio.sleep(0.5)
        assert engine.state().running <= 2
        await flex.control(FlexControl())
        await flex.wait_for(JobState.SUCCEEDED, 6)


async def test_jobs_that_have_not_begun_give_way_and_are_finished_later(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    # Slow to read, so that jobs are known to be unread for a while.
    config = flex.config([engine])
    slow = msgspec.structs.replace(config.routing, prefill_rate=50.0)
    config = msgspec.structs.replace(config, routing=slow)
    await flex.submit(7, {"tokens": 5, "interval": 0.5})
    async with flex.keeper(config) as station, flex.gateway(config) as live:
        await eventually(lambda: station.puller is not None and station.puller.in_flight() >= 2)
        replica = engine_replica(station.puller)
        live.loads = [live_claim(replica, 8, 500)]
        await eventually(lambda: station.counts.handed_back >= 1, 3.0)
        told = [signal for signal in live.heard.values() if signal.engines]
        assert told, "the keeper tells gateways of its engines"
        live.loads = []
        await flex.wait_for(JobState.SUCCEEDED, 7, 30.0)
    assert await flex.number(_CHARGES) == 7
    assert await flex.number("select max(attempts) from jobs") == 1


def engine_replica(puller: object) -> str:
    lanes = getattr(puller, "lanes", {})
    return str(next(iter(lanes)))


async def test_a_keeper_tells_gateways_how_much_flex_work_its_engine_has(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    config = flex.config([engine])
    await flex.submit(3, {"tokens": 10, "interval": 0.2})
    async with flex.keeper(config), flex.gateway(config) as live:

        def is_told() -> bool:
            claims = [claim for signal in live.heard.values() for claim in signal.engines]
            loads = [load for signal in live.heard.values() for load in signal.loads]
            assert not loads, "flex work is no gateway's load"
            return any(claim.own_requests == 3 for claim in claims)

        await eventually(is_told)
        await flex.wait_for(JobState.SUCCEEDED, 3)


async def test_old_jobs_move_while_live_requests_keep_every_slot(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    flex.queue_settings = QueueSettings(flex_wait_target_seconds=1.0)
    config = flex.config([engine])
    async with flex.gateway(config) as live, flex.keeper(config) as station:
        await eventually(lambda: bool(station.puller and station.puller.lanes))
        live.loads = [live_claim(engine_replica(station.puller), 8, 5000)]
        await asyncio.sleep(0.5)
        await flex.submit(5, {"tokens": 2})
        await asyncio.sleep(0.5)
        assert station.counts.started == 0, "young jobs wait"
        await flex.wait_for(JobState.SUCCEEDED, 5, 20.0)
        assert station.counts.started_reserved == 5
    request = engine.state().last_request
    assert request is not None
    assert "priority" not in msgspec.json.decode(request["body"])


async def test_a_keeper_that_ends_hands_back_and_finishes(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    await flex.submit(4, {"tokens": 30, "interval": 0.1})
    async with flex.keeper(flex.config([engine])) as station:
        await eventually(lambda: engine.state().running == 4)
        assert station.counts.succeeded == 0
    assert await flex.count(JobState.SUCCEEDED) == 4
    await flex.submit(4, {"tokens": 1000, "interval": 0.1})
    async with flex.keeper(flex.config([engine], drain_seconds=0.2)):
        await eventually(lambda: engine.state().running == 4)
    assert await flex.count(JobState.QUEUED) == 4


async def test_another_keeper_finishes_what_a_killed_one_had_begun(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    await flex.submit(4, {"tokens": 20, "interval": 0.1})
    doomed = KeeperProcess(flex.config([engine], "doomed"), flex.folder)
    try:
        await eventually(lambda: engine.state().running == 4, 30.0)
    finally:
        doomed.kill()
    await eventually(lambda: engine.state().aborted == 4)
    async with flex.keeper(flex.config([engine])):
        async with asyncio.timeout(30):
            while await flex.count(JobState.SUCCEEDED) < 4:
                # Control's part: leases that lapsed.
                async with flex.store.transaction() as transaction:
                    await flex.queue.sweep(transaction)
                await asyncio.sleep(0.2)
    assert await flex.number(_CHARGES) == 4


async def test_the_command_ends_by_sigterm_with_nothing_lost(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    await flex.submit(30, {"tokens": 3, "interval": 0.05})
    keeper = KeeperProcess(flex.config([engine]), flex.folder)
    try:
        await flex.wait_for(JobState.SUCCEEDED, 5, 30.0)
        assert await asyncio.to_thread(keeper.terminate) == 0
    finally:
        keeper.end()
    done = await flex.count(JobState.SUCCEEDED)
    assert done + await flex.count(JobState.QUEUED) == 30
    assert await flex.number(_CHARGES) == done


async def test_a_blocked_account_fails_its_jobs_by_that_name(
    flex: FlexCell, engine: ScriptedEngine
) -> None:
    jobs = await flex.submit(1)
    await AccountBook(flex.store).set_blocked(flex.account, True)
    async with flex.keeper(flex.config([engine])):
        await flex.wait_for(JobState.FAILED, 1)
    failure = (await flex.job(jobs[0])).failure
    assert failure is not None
    assert failure.code == "account_blocked"


async def test_jobs_run_on_while_postgres_is_away_and_are_completed_afterwards(
    own_postgres: EmbeddedPostgres, engine: ScriptedEngine, tmp_path: Path
) -> None:
    dsn = await asyncio.to_thread(own_postgres.start)
    await migrate(dsn)
    store = Store(StoreSettings(dsn=dsn, acquire_seconds=0.5))
    await store.open()
    try:
        with short_folder() as signals:
            flex = FlexCell(store, dsn, tmp_path, signals)
            await flex.set_up()
            await flex.submit(3, {"tokens": 20, "interval": 0.1})
            async with flex.keeper(flex.config([engine], lease_seconds=10.0)) as station:
                await eventually(lambda: engine.state().running == 3)
                await asyncio.to_thread(own_postgres.stop)
                await eventually(lambda: engine.state().finished == 3)
                await asyncio.to_thread(own_postgres.start)
                await eventually(lambda: station.counts.succeeded == 3, 15.0)
            assert await flex.number("select max(attempts) from jobs") == 1
            assert await flex.number(_CHARGES) == 3
    finally:
        await store.close()
