"""The roster in a real Postgres: who may write, what gateways see, who is given up and when."""

import asyncio
import time
from collections.abc import Callable

import msgspec
import pytest

from penstock.clock import SystemClock
from penstock.errors import GenerationStale, StoreUnavailable
from penstock.fleet.reaper import Reaper
from penstock.fleet.roster import RosterMirror, RosterTable
from penstock.fleet.settings import FleetSettings
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres
from penstock.testing import ManualClock

_M = ModelId("m")
_KEEPER = "keeper-1"


def _replica(name: str = "r1", **changes: object) -> Replica:
    plain = Replica(
        id=ReplicaId(name),
        model=_M,
        url="http://127.0.0.1:1",
        state=ReplicaState.READY,
        served_name="m",
        slots_live=4,
        host="h",
    )
    return msgspec.structs.replace(plain, **changes)


def _untimed(replicas: tuple[Replica, ...]) -> tuple[Replica, ...]:
    return tuple(msgspec.structs.replace(each, changed_at=0.0) for each in replicas)


def _mirror(store: Store, **settings: object) -> RosterMirror:
    made = msgspec.structs.replace(FleetSettings(), **settings)
    return RosterMirror(store, SystemClock(), made)


async def _until(claim: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.02)


async def _column(store: Store, replica: str, sql: str) -> object:
    async with store.transaction() as tx:
        row = await tx.fetch_one(
            f"select {sql} from replicas where id = %s",
            (replica,),
        )
    assert row is not None
    return row[0]


async def test_what_a_keeper_enrolls_a_gateway_reads(store: Store) -> None:
    table, mirror = RosterTable(store), _mirror(store)
    assert mirror.age_seconds is None
    await table.enroll(_replica(), keeper=_KEEPER)
    await table.enroll(_replica("r2", state=ReplicaState.STARTING), keeper=_KEEPER)
    await mirror.load()
    assert _untimed(mirror.ready(_M)) == (_replica(),)
    assert mirror.ready(ModelId("other")) == ()
    assert [replica.id for replica in mirror.all()] == ["r1", "r2"]
    assert mirror.wanted_models() == {_M}
    assert mirror.version == 1
    assert mirror.age_seconds is not None


async def test_a_start_is_timed_and_the_last_one_is_remembered(store: Store) -> None:
    table, mirror = RosterTable(store), _mirror(store)
    await table.enroll(_replica(state=ReplicaState.STARTING), keeper=_KEEPER)
    await mirror.poll()
    await asyncio.sleep(0.3)
    start = mirror.starting(_M)
    assert start is not None
    assert 0.2 < start.elapsed_seconds < 10
    assert start.last_seconds is None
    await table.change(_replica())
    await mirror.poll()
    assert mirror.starting(_M) is None
    await table.change(_replica(state=ReplicaState.GONE))
    await table.enroll(_replica("r2", state=ReplicaState.STARTING), keeper=_KEEPER)
    await mirror.poll()
    again = mirror.starting(_M)
    assert again is not None
    assert again.last_seconds is not None
    assert 0.2 < again.last_seconds < 10


async def test_a_change_is_read_by_its_revision_and_a_heartbeat_is_not_a_change(
    store: Store,
) -> None:
    table, mirror = RosterTable(store), _mirror(store)
    await table.enroll(_replica(), keeper=_KEEPER)
    await mirror.poll()
    revision = await _column(store, "r1", "revision")
    assert await table.beat([_replica()]) == frozenset()
    assert await _column(store, "r1", "revision") == revision
    await mirror.poll()
    assert mirror.version == 1
    await table.change(_replica(state=ReplicaState.DRAINING))
    await mirror.poll()
    assert mirror.ready(_M) == ()
    assert mirror.wanted_models() == {_M}
    assert mirror.version == 2
    await table.change(_replica(state=ReplicaState.GONE))
    await mirror.poll()
    assert mirror.all() == ()
    assert mirror.wanted_models() == frozenset()


async def test_a_running_mirror_sees_a_change_within_two_seconds(store: Store) -> None:
    table, mirror = RosterTable(store), _mirror(store)
    await table.enroll(_replica(), keeper=_KEEPER)
    async with asyncio.TaskGroup() as group:
        follower = group.create_task(mirror.run())
        await _until(lambda: len(mirror.ready(_M)) == 1, 5)
        await table.change(_replica(state=ReplicaState.GONE))
        await _until(lambda: mirror.ready(_M) == (), 2)
        follower.cancel()


async def test_a_writer_of_another_generation_is_refused(store: Store) -> None:
    table = RosterTable(store)
    await table.enroll(_replica(generation=3), keeper=_KEEPER)
    for generation in (2, 4):
        with pytest.raises(GenerationStale):
            await table.change(_replica(generation=generation, state=ReplicaState.DRAINING))
    with pytest.raises(GenerationStale):
        await table.change(_replica("never-listed"))
    assert await table.beat([_replica(generation=2)]) == {"r1"}
    assert await _column(store, "r1", "state") == "ready"


async def test_a_refused_write_takes_no_revision(store: Store) -> None:
    table, mirror = RosterTable(store), _mirror(store)
    await table.enroll(_replica(generation=3), keeper=_KEEPER)
    revision = await _column(store, "r1", "(select revision from roster_revision)")
    with pytest.raises(GenerationStale):
        await table.change(_replica(generation=2))
    assert await _column(store, "r1", "(select revision from roster_revision)") == revision
    await mirror.load()
    assert _untimed(mirror.ready(_M)) == (_replica(generation=3),)


async def test_adopting_needs_a_newer_generation_and_refuses_the_one_before(store: Store) -> None:
    table = RosterTable(store)
    await table.enroll(_replica(), keeper=_KEEPER)
    with pytest.raises(GenerationStale):
        await table.enroll(_replica(), keeper="keeper-2")
    await table.enroll(_replica(generation=2), keeper="keeper-2")
    with pytest.raises(GenerationStale):
        await table.enroll(_replica(), keeper=_KEEPER)
    with pytest.raises(GenerationStale):
        await table.change(_replica(state=ReplicaState.DRAINING))
    assert await _column(store, "r1", "keeper") == "keeper-2"


async def test_enrolling_may_be_repeated_when_its_commit_was_not_heard_of(store: Store) -> None:
    table = RosterTable(store)
    for _ in range(2):
        await table.enroll(_replica(generation=2), keeper=_KEEPER)
    assert await _column(store, "r1", "generation") == 2


async def test_what_is_gone_is_not_listed_again(store: Store) -> None:
    table = RosterTable(store)
    await table.enroll(_replica(), keeper=_KEEPER)
    gone = _replica(state=ReplicaState.GONE)
    for _ in range(2):
        await table.change(gone)
    with pytest.raises(GenerationStale):
        await table.change(_replica())
    with pytest.raises(GenerationStale):
        await table.enroll(_replica(generation=9), keeper=_KEEPER)
    assert await table.beat([_replica()]) == {"r1"}


async def test_a_keeper_gives_up_only_its_own_rows_that_it_no_longer_knows(store: Store) -> None:
    table = RosterTable(store)
    for name in ("r1", "r2"):
        await table.enroll(_replica(name), keeper=_KEEPER)
    await table.enroll(_replica("r3"), keeper="keeper-2")
    assert await table.give_up_others(_KEEPER, [ReplicaId("r2")]) == 1
    mirror = _mirror(store)
    await mirror.load()
    assert [replica.id for replica in mirror.all()] == ["r2", "r3"]
    with pytest.raises(GenerationStale):
        await table.change(_replica("r1", state=ReplicaState.DRAINING))


async def test_many_writers_at_once_hide_nothing_from_a_reader(store: Store) -> None:
    table, mirror = RosterTable(store), _mirror(store)
    names = [f"r{n:02}" for n in range(40)]
    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(table.enroll(_replica(name), keeper=_KEEPER))
        for _ in range(20):
            await mirror.poll()
    await mirror.poll()
    assert [replica.id for replica in mirror.ready(_M)] == names


async def _age(store: Store, replica: str, column: str, seconds: float) -> None:
    async with store.transaction() as tx:
        await tx.execute(
            f"update replicas set {column} = now() - make_interval(secs => %s) where id = %s",
            (seconds, replica),
        )


async def test_a_replica_is_given_up_only_after_the_orphan_time_and_margin(store: Store) -> None:
    table, clock = RosterTable(store), ManualClock()
    reaper = Reaper(store, clock, FleetSettings())
    for name, age in (("r1", 659.0), ("r2", 661.0)):
        await table.enroll(_replica(name), keeper=_KEEPER)
        await _age(store, name, "heartbeat_at", age)
    assert await reaper.step() == 0, "it has just begun, and waits one full interval"
    clock.advance(29.9)
    assert await reaper.step() == 0
    clock.advance(0.1)
    assert await reaper.step() == 1
    mirror = _mirror(store)
    await mirror.load()
    assert [replica.id for replica in mirror.all()] == ["r1"]
    assert await table.beat([_replica("r2")]) == {"r2"}, "a ghost that returns is told"


async def test_rows_of_the_gone_are_deleted_after_their_time(store: Store) -> None:
    table, clock = RosterTable(store), ManualClock()
    reaper = Reaper(store, clock, FleetSettings(gone_keep_hours=2.0))
    for name, age in (("r1", 7199.0), ("r2", 7201.0)):
        await table.enroll(_replica(name, state=ReplicaState.GONE), keeper=_KEEPER)
        await _age(store, name, "changed_at", age)
    await reaper.step()
    clock.advance(30.0)
    await reaper.step()
    async with store.transaction() as tx:
        assert await tx.fetch("select id from replicas") == [("r1",)]


async def test_while_postgres_is_away_gateways_keep_the_roster_and_nothing_is_reaped(
    own_postgres: EmbeddedPostgres,
) -> None:
    dsn = await asyncio.to_thread(own_postgres.start)
    await migrate(dsn)
    store = Store(StoreSettings(dsn=dsn, acquire_seconds=0.3))
    await store.open()
    clock = ManualClock()
    table, reaper = RosterTable(store), Reaper(store, clock, FleetSettings())
    mirror = _mirror(store, roster_poll_seconds=0.1)
    await table.enroll(_replica(), keeper=_KEEPER)
    await reaper.step()
    async with asyncio.TaskGroup() as group:
        follower = group.create_task(mirror.run())
        await _until(lambda: len(mirror.ready(_M)) == 1, 5)
        await _age(store, "r1", "heartbeat_at", 100_000)
        await asyncio.to_thread(own_postgres.stop)
        with pytest.raises(StoreUnavailable):
            await mirror.poll()
        clock.advance(1000.0)
        assert await reaper.step() == 0
        await asyncio.sleep(0.5)
        assert _untimed(mirror.ready(_M)) == (_replica(),)
        await asyncio.to_thread(own_postgres.start)
        await _until(lambda: (mirror.age_seconds or 9) < 0.2, 10)
        assert _untimed(mirror.ready(_M)) == (_replica(),), (
            "no heartbeat was fresh, and nothing is ejected"
        )
        assert await reaper.step() == 0, "one full interval after the reconnect"
        assert await table.beat([_replica()]) == frozenset()
        clock.advance(30.0)
        assert await reaper.step() == 0, "the keeper was heard in time"
        follower.cancel()
    await store.close()


async def test_a_mirror_outlives_what_nobody_foresaw(empty_dsn: str) -> None:
    store = Store(StoreSettings(dsn=empty_dsn))
    await store.open()
    mirror = _mirror(store, roster_poll_seconds=0.05)
    async with asyncio.TaskGroup() as group:
        follower = group.create_task(mirror.run())
        await _until(lambda: mirror.failures > 1, 10)
        await migrate(empty_dsn)
        await RosterTable(store).enroll(_replica(), keeper=_KEEPER)
        await _until(lambda: _untimed(mirror.ready(_M)) == (_replica(),), 10)
        follower.cancel()
    await store.close()


async def test_replicas_of_a_pool_are_not_reaped_while_its_keeper_is_away(store: Store) -> None:
    """Pods have no supervisor that ends them, so they serve on."""
    clock = ManualClock()
    table, reaper = RosterTable(store), Reaper(store, clock, FleetSettings())
    await table.enroll(_replica(), keeper=_KEEPER)
    await table.enroll(_replica("r2"), keeper="pool-h200")
    async with store.transaction() as tx:
        await tx.execute(
            "insert into hosts (keeper, name, address, labels, gpus, waiting, versions, pool)"
            " values ('pool-h200', 'h200', '', '{}', '[]', '{}', '{}', 'h200')"
        )
    for replica in ("r1", "r2"):
        await _age(store, replica, "heartbeat_at", 100_000)
    await reaper.step()
    clock.advance(1000.0)
    assert await reaper.step() == 1
    mirror = _mirror(store)
    await mirror.poll()
    assert [replica.id for replica in mirror.ready(_M)] == ["r2"]


async def test_a_running_reaper_judges_after_one_interval(store: Store) -> None:
    settings = FleetSettings(reap_seconds=0.1, orphan_seconds=0.2, reap_margin_seconds=0.0)
    await RosterTable(store).enroll(_replica(), keeper=_KEEPER)
    mirror = _mirror(store, roster_poll_seconds=0.05)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(mirror.run()),
            group.create_task(Reaper(store, SystemClock(), settings).run()),
        ]
        await _until(lambda: len(mirror.all()) == 1, 5)
        await _until(lambda: not mirror.all(), 5)
        for task in tasks:
            task.cancel()
