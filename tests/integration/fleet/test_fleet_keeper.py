"""A keeper with real processes and a real Postgres: launch, loss, adoption, drain, outage.

Run as a program (DSN, FOLDER) it is a keeper that a test can kill.
"""

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.integration.fleet.engine_replicas import replica_at
from tests.integration.fleet.watched_keeper import (
    WatchedKeeper,
    is_up,
    quick_settings,
    running,
    state_folder,
    states_in,
    until,
)

from penstock.catalogue import Catalogue
from penstock.clock import SystemClock
from penstock.errors import Conflict, NotFound, Superseded
from penstock.fleet.health import EngineProbe
from penstock.fleet.orders import OrderTable, ReplicaOrder
from penstock.fleet.reconcile import Keeper
from penstock.fleet.roster import RosterMirror
from penstock.fleet.settings import FleetSettings, WantedReplicas
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.replica import Replica, ReplicaState
from penstock.store import Store, StoreSettings, migrate
from penstock.store.embedded import EmbeddedPostgres
from penstock.testing import ScriptedEngine

_M = ModelId("@cf/test/m")
_COMMAND = (sys.executable, "-m", "penstock.testing.scripted_engine", "--port", "{port}")
_SLOW = ("sh", "-c", f"echo Loading weights; sleep 1; exec {' '.join(_COMMAND)} --model m")
_CATALOGUE = Catalogue(
    [
        Model(_M, Family.OPENAI, 8192, Recipe((*_COMMAND, "--model", "m"), served_name="m")),
        Model(ModelId("@cf/test/slow"), Family.OPENAI, 8192, Recipe(_SLOW, served_name="m")),
        Model(ModelId("@cf/test/broken"), Family.OPENAI, 8192, Recipe(("no-such-engine",))),
    ]
)
_ONE = (WantedReplicas(_M),)
_GONE = ReplicaState.GONE
# This file, as a program.
_MODULE = "tests.integration.fleet.test_fleet_keeper"


def _settings(folder: Path, **changes: Any) -> FleetSettings:
    return quick_settings(folder, **{"replicas": _ONE, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with state_folder(tmp_path) as made:
        yield made


@asynccontextmanager
async def _running(
    store: Store, settings: FleetSettings, *, stop_replicas: bool = False
) -> AsyncIterator[WatchedKeeper]:
    watched = WatchedKeeper(store, settings, _CATALOGUE)
    async with running(watched, stop_replicas=stop_replicas):
        yield watched


async def _answers(url: str) -> bool:
    return await EngineProbe(FleetSettings()).is_healthy(replica_at(url))


async def _rows(store: Store) -> list[tuple[str, str, str]]:
    async with store.transaction() as tx:
        rows = await tx.fetch("select id, state, detail from replicas order by id")
    return [(row[0], row[1], row[2]) for row in rows]


async def _row_is(store: Store, replica: str, state: str) -> None:
    deadline = time.monotonic() + 20
    while [row[1] for row in await _rows(store) if row[0] == replica] != [state]:
        assert time.monotonic() < deadline, f"{replica} is not {state}: {await _rows(store)}"
        await asyncio.sleep(0.05)


async def test_a_launched_replica_becomes_ready_and_stays_when_its_keeper_stops(
    store: Store, folder: Path
) -> None:
    async with _running(store, _settings(folder)) as watched:
        replica = await watched.ready()
        assert (replica.served_name, replica.slots_live, replica.generation) == ("m", 256, 1)
        assert await _answers(replica.url)
    [state] = states_in(folder)
    assert is_up(state)
    assert await _rows(store) == [(replica.id, "ready", "")]


async def test_a_slow_start_is_told_line_by_line(store: Store, folder: Path) -> None:
    settings = _settings(folder, replicas=(WantedReplicas("@cf/test/slow"),))
    async with _running(store, settings) as watched:
        await until(lambda: any(p.state is ReplicaState.READY for p in watched.progress))
    *starting, last = watched.progress
    assert {p.state for p in starting} == {ReplicaState.STARTING}
    assert "Loading weights" in {p.line for p in starting}
    elapsed = [p.elapsed_seconds for p in starting]
    assert elapsed == sorted(elapsed)
    assert elapsed[-1] > 0.8
    assert (last.line, last.url.startswith("http://127.0.0.1:24")) == ("", True)


async def test_a_killed_engine_is_replaced_under_a_new_id_after_its_back_off(
    store: Store, folder: Path
) -> None:
    async with _running(store, _settings(folder)) as watched:
        old = await watched.ready()
        killed_at = time.monotonic()
        os.kill(states_in(folder)[0]["engine_pid"], signal.SIGKILL)
        await until(lambda: not watched.mirror.ready(_M), 2)
        new = await watched.ready(other_than=old.id)
        assert time.monotonic() - killed_at >= 0.5
        assert new.id > old.id
        await _row_is(store, old.id, "gone")
        details = {row[0]: row[2] for row in await _rows(store)}
        assert details[old.id] == "killed by SIGKILL"
        assert [is_up(state) for state in states_in(folder)] == [False, True]


async def test_an_engine_that_cannot_start_is_tried_again_with_growing_pauses(
    store: Store, folder: Path
) -> None:
    wanted = (WantedReplicas("@cf/test/broken"),)
    settings = _settings(folder, replicas=wanted, restart_first_seconds=0.2, ended_kept=2)
    async with _running(store, settings) as watched:
        await until(lambda: len([p for p in watched.progress if p.state is _GONE]) >= 4)
        gone = [p for p in watched.progress if p.state is _GONE]
        assert gone[0].detail.startswith("exit code 127: The engine could not be started")
        assert len({p.replica for p in gone}) == len(gone)
    times = sorted(int(p.replica.replace("-", "")[:12], 16) / 1000 for p in gone[:4])
    pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
    assert pauses[0] >= 0.2
    assert pauses[1] >= 0.4
    assert pauses[2] >= 0.8
    assert len(list((folder / "ended").iterdir())) <= 2


async def test_a_replica_outlives_a_killed_keeper_and_the_next_one_adopts_it(
    store: Store, dsn: str, folder: Path, killable: Callable[[str, Path], subprocess.Popen[bytes]]
) -> None:
    process = killable(dsn, folder)
    mirror = RosterMirror(store, SystemClock(), _settings(folder))
    while not mirror.ready(_M):
        assert process.poll() is None, "the keeper has ended by itself"
        await asyncio.sleep(0.05)
        await mirror.poll()
    [old] = mirror.ready(_M)
    [before] = states_in(folder)
    process.kill()
    process.wait()
    await asyncio.sleep(0.5)
    assert await _answers(old.url)
    async with _running(store, _settings(folder)) as watched:
        await until(lambda: [r.generation for r in watched.mirror.ready(_M)] == [2])
        [adopted] = watched.mirror.ready(_M)
        assert (adopted.id, adopted.url) == (old.id, old.url)
        assert [(p.replica, p.state) for p in watched.progress] == [(old.id, "ready")]
        assert states_in(folder) == [before]
        await asyncio.sleep(0.5)
        assert [row[1] for row in await _rows(store)] == ["ready"]


async def test_without_any_keeper_the_replica_ends_itself_and_the_next_keeper_says_so(
    store: Store, folder: Path
) -> None:
    settings = _settings(folder, orphan_seconds=1.0)
    async with _running(store, settings) as watched:
        old = await watched.ready()
        await asyncio.sleep(1.5)
        assert watched.mirror.ready(_M)[0].id == old.id, "its keeper lives"
    await until(lambda: not is_up(states_in(folder)[0]))
    async with _running(store, settings) as watched:
        await watched.ready(other_than=old.id)
        await _row_is(store, old.id, "gone")


async def test_an_engine_whose_supervisor_was_killed_is_ended_and_replaced(
    store: Store, folder: Path
) -> None:
    async with _running(store, _settings(folder)) as watched:
        old = await watched.ready()
    [state] = states_in(folder)
    os.kill(state["supervisor_pid"], signal.SIGKILL)
    async with _running(store, _settings(folder)) as watched:
        await watched.ready(other_than=old.id)
        await _row_is(store, old.id, "gone")
        assert not is_up(state)


async def test_an_attached_server_is_listed_watched_and_never_stopped(
    store: Store, folder: Path
) -> None:
    with ScriptedEngine(model="served-by-others") as engine:
        wanted = (WantedReplicas(_M, provider="attach", url=engine.url, slots_live=7),)
        settings = _settings(folder, replicas=wanted, unhealthy_seconds=0.5)
        async with _running(store, settings) as watched:
            first = await watched.ready()
            assert (first.served_name, first.slots_live) == ("served-by-others", 7)
        async with _running(store, settings, stop_replicas=True) as watched:
            await until(lambda: [r.generation for r in watched.mirror.ready(_M)] == [2])
            assert watched.mirror.ready(_M)[0].id == first.id
            engine.control(healthy=False)
            await until(lambda: not watched.mirror.ready(_M))
            engine.control()
            second = await watched.ready(other_than=first.id)
        await _row_is(store, second.id, "gone")
        assert await _answers(engine.url)


async def test_a_drained_replica_finishes_its_stream_before_it_ends(
    store: Store, folder: Path
) -> None:
    async with _running(store, _settings(folder)) as watched:
        old = await watched.ready()
        orders = OrderTable(store)
        with pytest.raises(NotFound):
            await orders.ask("never", ReplicaOrder.DRAIN)
        text = '@script {"tokens": 20, "interval": 0.1}'
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
        async with httpx.AsyncClient(timeout=30) as client:
            url = f"{old.url}/v1/chat/completions"
            async with client.stream("POST", url, json=body) as answer:
                lines = answer.aiter_lines()
                await anext(lines)
                await orders.ask(old.id, ReplicaOrder.DRAIN)
                await until(lambda: not watched.mirror.ready(_M), 2)
                rest = [line async for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        await watched.ready(other_than=old.id)
        await _row_is(store, old.id, "gone")
        assert ("drained by command") in {row[2] for row in await _rows(store)}
        with pytest.raises(Conflict, match="has ended"):
            await orders.ask(old.id, ReplicaOrder.DRAIN)


async def test_a_keeper_told_to_stop_its_replicas_leaves_none(store: Store, folder: Path) -> None:
    wanted = (WantedReplicas(_M, count=2),)
    settings = _settings(folder, replicas=wanted)
    async with _running(store, settings, stop_replicas=True) as watched:
        await watched.ready(2)
    assert [is_up(state) for state in states_in(folder)] == [False, False]
    assert [row[1] for row in await _rows(store)] == ["gone", "gone"]


async def test_a_second_keeper_on_the_same_folder_is_refused(store: Store, folder: Path) -> None:
    settings = _settings(folder, lock_wait_seconds=0.2)
    async with _running(store, settings) as watched:
        await watched.ready()
        with pytest.raises(Superseded):
            await Keeper(settings, _CATALOGUE, store, SystemClock()).run()


async def test_a_ghost_that_was_given_up_is_ended_and_replaced(store: Store, folder: Path) -> None:
    async with _running(store, _settings(folder)) as watched:
        old = await watched.ready()
        async with store.transaction() as tx:
            await tx.execute(
                "update replicas set state = 'gone', generation = generation + 1, revision = "
                "(select revision + 1 from roster_revision)"
            )
            await tx.execute("update roster_revision set revision = revision + 1")
        await watched.ready(other_than=old.id)
        assert [is_up(state) for state in states_in(folder)] == [False, True]
        assert [row[1] for row in await _rows(store)] == ["gone", "ready"]


async def test_an_outage_of_postgres_costs_no_replica_and_is_caught_up_with(
    own_postgres: EmbeddedPostgres, folder: Path
) -> None:
    dsn = await asyncio.to_thread(own_postgres.start)
    await migrate(dsn)
    store = Store(StoreSettings(dsn=dsn, acquire_seconds=0.3))
    await store.open()
    async with _running(store, _settings(folder)) as watched:
        old = await watched.ready()
        await asyncio.to_thread(own_postgres.stop)
        await asyncio.sleep(1.0)
        assert is_up(states_in(folder)[0])
        os.kill(states_in(folder)[0]["engine_pid"], signal.SIGKILL)
        await until(lambda: ReplicaState.READY in {r.state for r in _others(watched, old.id)})
        assert watched.mirror.ready(_M) == (old,), "a gateway keeps what it knew"
        await asyncio.to_thread(own_postgres.start)
        new = await watched.ready(other_than=old.id)
        await _row_is(store, old.id, "gone")
        assert [each.id for each in _others(watched, old.id)] == [new.id]
    await store.close()


def _others(watched: WatchedKeeper, old: str) -> list[Replica]:
    return [replica for replica in watched.keeper.replicas() if replica.id != old]


@pytest.fixture
def killable() -> Iterator[Callable[[str, Path], subprocess.Popen[bytes]]]:
    """Starts keepers as processes of their own."""
    started: list[subprocess.Popen[bytes]] = []

    def start(dsn: str, folder: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", _MODULE, dsn, str(folder)]
        started.append(subprocess.Popen(command, cwd=Path(__file__).parents[3]))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


async def _keep(dsn: str, folder: Path) -> None:
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    await Keeper(_settings(folder), _CATALOGUE, store, SystemClock()).run()


if __name__ == "__main__":
    asyncio.run(_keep(sys.argv[1], Path(sys.argv[2])))
