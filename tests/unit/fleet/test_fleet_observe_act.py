"""Looking and acting with a provider that owns nothing: what is unknown, adopted, refused."""

from pathlib import Path

import msgspec
import pytest

from penstock.errors import GenerationStale, NoReplica, Superseded
from penstock.fleet.act import Actor
from penstock.fleet.health import EngineProbe
from penstock.fleet.intent import Failures, FleetObservation, Phase, Want
from penstock.fleet.known import Known
from penstock.fleet.memory import FolderMemory
from penstock.fleet.observe import Observer, _best_name
from penstock.fleet.plan import DrainReplica, Forget, MarkReady, StartReplica, StopReplica
from penstock.fleet.providers import SeenProcess
from penstock.fleet.replica_files import Mark, ReplicaFile, StateFolder
from penstock.fleet.settings import FleetSettings
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaState
from penstock.testing import ManualClock

_WANT = Want("w", "shelf", ModelId("m"), 1, url="http://127.0.0.1:1", served_name="m")
_R = ReplicaId("r1")


class ShelfProvider:
    """Shows what is put on it. Everything there has ended, so that no engine is asked."""

    def __init__(self) -> None:
        self.shelf: list[SeenProcess] = []
        self.is_broken = False

    async def observe(self) -> tuple[SeenProcess, ...]:
        self._check()
        return tuple(self.shelf)

    async def start(self, replica: ReplicaId, want: Want, gpus: tuple[str, ...] = ()) -> None:
        self._check()
        self.shelf.append(
            SeenProcess(
                replica,
                want.name,
                want.model,
                1,
                want.url,
                Phase.ENDED,
                "exit 1",
                gpus=gpus,
            )
        )

    async def stop(self, replica: ReplicaId) -> None:
        self._check()
        self.shelf = [seen for seen in self.shelf if seen.id != replica]

    def _check(self) -> None:
        if self.is_broken:
            raise NoReplica("the shelf has fallen")


class World:
    """A keeper's parts without its loop."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.folder = StateFolder(path)
        self.folder.open()
        self.provider = ShelfProvider()
        self.known = Known(unwritten_max=2)
        providers = {"shelf": self.provider}
        settings = FleetSettings()
        probe = EngineProbe(settings)
        memory = FolderMemory(self.folder, ended_kept=1)
        self.observer = Observer(providers, probe, memory, self.clock, settings=settings)
        self.actor = Actor(providers, self.known, memory, self.clock)

    async def look(self) -> FleetObservation:
        return await self.observer.observe(self.known, "host", (_WANT,))

    def put(self, name: str = _R) -> None:
        seen = SeenProcess(ReplicaId(name), "w", ModelId("m"), 1, _WANT.url, Phase.ENDED, "exit 1")
        self.provider.shelf.append(seen)
        self.folder.write(ReplicaFile(seen.id, "shelf", "w", seen.model, seen.url))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_a_provider_that_fails_is_unknown_and_its_replicas_stay_known(world: World) -> None:
    world.put()
    await world.look()
    world.provider.is_broken = True
    seen = await world.look()
    assert seen.unknown == {"shelf"}
    assert [(replica.id, replica.phase) for replica in seen.replicas] == [(_R, Phase.ALIVE)]
    world.provider.is_broken = False
    assert (await world.look()).unknown == frozenset()


async def test_a_found_replica_is_adopted_where_its_keeper_had_got_under_the_next_generation(
    world: World,
) -> None:
    world.put()
    mark = Mark(ReplicaState.DRAINING, 4, world.clock.now() - 30, "m", "drained by command")
    world.folder.write_mark(_R, mark)
    [replica] = (await world.look()).replicas
    assert (replica.state, replica.generation) == (ReplicaState.DRAINING, 5)
    assert replica.since == world.clock.monotonic() - 30
    assert replica.detail == "drained by command"
    assert world.folder.read_mark(_R) == msgspec.structs.replace(mark, generation=5)
    assert (await world.look()).replicas == (replica,), "once is enough"


async def test_a_mark_from_the_future_gives_no_negative_age(world: World) -> None:
    world.put()
    world.folder.write_mark(_R, Mark(ReplicaState.READY, 1, world.clock.now() + 999))
    [replica] = (await world.look()).replicas
    assert replica.since == replica.ready_since == world.clock.monotonic()


async def test_what_a_provider_no_longer_shows_has_ended(world: World) -> None:
    world.put()
    await world.look()
    world.provider.shelf.clear()
    [replica] = (await world.look()).replicas
    assert replica.phase is Phase.ENDED


async def test_a_start_that_fails_is_observed_as_ended_with_its_reason(world: World) -> None:
    world.provider.is_broken = True
    await world.actor.act(StartReplica(_R, 1, _WANT), "host")
    world.provider.is_broken = False
    [replica] = (await world.look()).replicas
    assert replica.phase is Phase.ENDED
    assert replica.detail == "could not be started: the shelf has fallen"


async def test_an_action_of_another_generation_is_refused(world: World) -> None:
    await world.actor.act(StartReplica(_R, 1, _WANT), "host")
    for action in (
        MarkReady(_R, 2),
        DrainReplica(_R, 0, "x"),
        StopReplica(_R, 2, "x"),
        Forget(_R, 2, "x"),
    ):
        with pytest.raises(GenerationStale):
            await world.actor.act(action, "host")
    with pytest.raises(GenerationStale):
        await world.actor.act(MarkReady(ReplicaId("never"), 1), "host")
    assert world.known.replicas[_R].replica.state is ReplicaState.STARTING


async def test_actions_move_a_replica_along_its_states_and_never_back(world: World) -> None:
    await world.actor.act(StartReplica(_R, 1, _WANT), "host")
    await world.actor.act(MarkReady(_R, 1), "host")
    await world.actor.act(DrainReplica(_R, 1, "silent", is_failure=True), "host")
    entry = world.known.replicas[_R]
    assert (entry.replica.state, entry.is_failed, entry.detail) == ("draining", True, "silent")
    with pytest.raises(Superseded):
        await world.actor.act(MarkReady(_R, 1), "host")
    await world.actor.act(Forget(_R, 1, "silent", Failures(3, 7.0)), "host")
    assert world.known.failures == {"w": Failures(3, 7.0)}
    assert list(world.known.ended) == [_R]
    assert world.known.replicas == {}


async def test_a_stop_that_fails_is_left_to_the_next_plan(world: World) -> None:
    await world.actor.act(StartReplica(_R, 1, _WANT), "host")
    world.provider.is_broken = True
    await world.actor.act(StopReplica(_R, 1, "x"), "host")
    world.provider.is_broken = False
    assert len(world.provider.shelf) == 1
    await world.actor.act(StopReplica(_R, 1, "x"), "host")
    assert world.provider.shelf == []


async def test_what_ended_while_postgres_is_away_is_remembered_up_to_a_limit(world: World) -> None:
    for name in ("a", "b", "c"):
        await world.actor.act(StartReplica(ReplicaId(name), 1, _WANT), "host")
        await world.actor.act(Forget(ReplicaId(name), 1, "x"), "host")
    assert list(world.known.ended) == ["b", "c"]


def test_of_several_served_names_the_expected_one_is_taken() -> None:
    assert _best_name(("lora", "kimi", "@cf/a/kimi"), "kimi", "@cf/a/kimi") == "kimi"
    assert _best_name(("lora", "@cf/a/kimi"), "kimi", "@cf/a/kimi") == "@cf/a/kimi"
    assert _best_name(("lora", "other"), "", "@cf/a/kimi") == "lora"
    assert _best_name((), "kimi", "@cf/a/kimi") == ""
