"""Deployments on real keepers and engines: placed, scaled, rolled out, and after losses."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.fleet.deployed_cell import MODEL, deployed_cell, until_so
from tests.integration.fleet.watched_keeper import is_up, state_folder, states_in, until

from penstock.errors import Conflict, NotFound
from penstock.fleet.cell.deployments import Author, resolve
from penstock.fleet.orders import OrderTable
from penstock.records.deployment import DeploymentSpec, ReplicaRange
from penstock.store import Store

TWO = {"min": 2, "max": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with state_folder(tmp_path) as made:
        yield made
        for host in tmp_path.glob("gpu-*"):
            with state_folder(host):
                pass


async def test_replicas_are_placed_scaled_and_removed(store: Store, folder: Path) -> None:
    async with deployed_cell(store, folder, hosts=2) as cell:
        await cell.apply(replicas=TWO)
        await cell.settled(2)
        assert cell.by_host() == {"gpu-1": 1, "gpu-2": 1}
        first = {replica.id for replica in cell.ready()}
        await cell.deployments.scale("pair", ReplicaRange(4, 4), Author("test"))
        await cell.settled(4)
        assert cell.by_host() == {"gpu-1": 2, "gpu-2": 2}
        assert first < {replica.id for replica in cell.ready()}
        await cell.deployments.scale("pair", ReplicaRange(1, 1), Author("test"))
        shown = await cell.settled(1)
        # A count is not a way to start replicas: none was replaced.
        assert (shown.revision, shown.launch) == (3, 1)
        assert {replica.id for replica in cell.ready()} < first
        await cell.deployments.remove("pair")
        await until_so(lambda: _is_gone(cell.deployments.find("pair")))
        await until(lambda: not cell.engines())
        await until_so(lambda: _is_empty(store, "deployments"))
        assert await _is_empty(store, "assignments")


async def test_what_finds_no_room_says_why_and_starts_when_there_is_some(
    store: Store, folder: Path
) -> None:
    async with deployed_cell(store, folder, hosts=1) as cell:
        await cell.apply(replicas={"min": 3, "max": 3})
        await until_so(
            lambda: _has(cell.shown(), "waits", "needs 2 GPUs on one host; most free: 0")
        )
        assert len(cell.ready()) <= 2
        cell.add_host("gpu-2")
        shown = await cell.settled(3)
        assert shown.waits == ""


async def test_a_changed_argument_is_rolled_out_and_back(store: Store, folder: Path) -> None:
    async with deployed_cell(store, folder, hosts=2) as cell:
        await cell.apply(replicas=TWO)
        await cell.settled(2)
        old = {replica.id for replica in cell.ready()}
        cell.fewest.clear()
        await cell.apply(replicas=TWO, arguments=["--max-model-len", "4096"])
        await until_so(lambda: _has(cell.shown(), "stage", "rolling"))
        shown = await cell.settled(2)
        assert (shown.revision, shown.launch, shown.stable) == (2, 2, 2)
        assert not old & {replica.id for replica in cell.ready()}
        # A surge where GPUs are free: never fewer than wanted.
        assert min(cell.fewest) == 2
        assert max(cell.fewest) <= 3
        await cell.deployments.roll_back("pair", None, Author("test"))
        shown = await cell.settled(2)
        assert (shown.revision, shown.launch, shown.stable) == (3, 1, 1)
        await until(lambda: not any("--max-model-len" in each["argv"] for each in cell.engines()))
        why = [each.why for each in await cell.deployments.history("pair")]
        assert why == ["back to revision 1", "", ""]


async def test_without_free_gpus_one_replica_at_a_time_is_replaced(
    store: Store, folder: Path
) -> None:
    async with deployed_cell(store, folder, hosts=1) as cell:
        await cell.apply(replicas=TWO)
        await cell.settled(2)
        cell.fewest.clear()
        await cell.apply(replicas=TWO, environment={"NEW": "1"})
        await until_so(lambda: _has(cell.shown(), "stage", "rolling"))
        await cell.settled(2)
        assert min(cell.fewest) == 1
        assert all(state["environment"]["NEW"] == "1" for state in cell.engines())


async def test_a_launch_that_does_not_start_halts_and_the_old_replicas_stay(
    store: Store, folder: Path
) -> None:
    async with deployed_cell(store, folder, hosts=2) as cell:
        await cell.apply(replicas=TWO)
        await cell.settled(2)
        old = {replica.id for replica in cell.ready()}
        await cell.apply(replicas=TWO, arguments=["--no-such-option"])
        await until_so(lambda: _has(cell.shown(), "stage", "rolling"))
        await asyncio.sleep(1.0)
        # As if its recipe's time had passed.
        await _rows(
            store, "update assignments set made_at = made_at - interval '3 hours' returning 1"
        )
        await until_so(lambda: _has(cell.shown(), "stage", "halted"))
        shown = await cell.shown()
        assert shown.reason == "a new replica is not ready after 5400 s"
        await until_so(lambda: _has(cell.shown(), "placed", 2))
        assert {replica.id for replica in cell.ready()} == old
        await cell.apply(replicas=TWO)
        assert (await cell.settled(2)).launch == 1


async def test_a_drained_host_is_emptied_and_its_replicas_come_elsewhere(
    store: Store, folder: Path
) -> None:
    orders = OrderTable(store)
    async with deployed_cell(store, folder, hosts=2) as cell:
        await cell.apply(replicas=TWO)
        await cell.settled(2)
        await orders.cordon("gpu-1", is_cordoned=True, is_draining=True)
        await until(lambda: cell.by_host() == {"gpu-2": 2})
        await until(lambda: not cell.hosts["gpu-1"].engines())
        await orders.cordon("gpu-1", is_cordoned=True)
        await cell.deployments.scale("pair", ReplicaRange(3, 3), Author("test"))
        await until_so(lambda: _has(cell.shown(), "waits", "most free: 0 on gpu-2"))
        await orders.cordon("gpu-1", is_cordoned=False)
        await cell.settled(3)


async def test_a_lost_host_is_replaced_and_its_ghosts_end_when_it_returns(
    store: Store, folder: Path
) -> None:
    async with deployed_cell(store, folder, hosts=2) as cell:
        await cell.apply(replicas=TWO)
        await cell.settled(2)
        lost = cell.hosts["gpu-1"]
        ghosts = {state["id"] for state in lost.engines()}
        await lost.stop()
        await until(lambda: cell.by_host() == {"gpu-2": 2})
        assert len(lost.engines()) == 1
        cell.start_again(lost)
        await until(lambda: not lost.engines())
        assert cell.by_host() == {"gpu-2": 2}
        assert not ghosts & {replica.id for replica in cell.mirror.all()}


async def test_a_keeper_that_restarts_without_postgres_keeps_its_replicas(
    store: Store, folder: Path
) -> None:
    async with deployed_cell(store, folder, hosts=1) as cell:
        await cell.apply(replicas=TWO)
        await cell.settled(2)
        host = cell.hosts["gpu-1"]
        before = {state["id"] for state in host.engines()}
        await host.stop()
        host.may_fail = True
        cell.is_control_away = True
        await asyncio.sleep(0.2)
        # The keeper cannot read what is wanted: that must not mean that nothing is.
        await _rows(store, "alter table assignments rename to hidden")
        cell.start_again(host)
        await asyncio.sleep(1.5)
        assert {state["id"] for state in host.engines()} == before
        await _rows(store, "alter table hidden rename to assignments")
        cell.is_control_away = False
        await cell.settled(2)
        assert {replica.id for replica in cell.ready()} == before


async def test_a_host_with_fewer_gpus_than_before_gives_its_replica_away(
    store: Store, folder: Path
) -> None:
    async with deployed_cell(store, folder, hosts=1) as cell:
        await cell.apply(replicas=TWO)
        await cell.settled(2)
        host = cell.hosts["gpu-1"]
        await host.stop()
        states = states_in(host.folder)
        for state in states:
            # As after a reboot: supervisors end engines whose file is gone.
            host.folder.joinpath("replicas", state["id"], "state.json").unlink(missing_ok=True)
        await until(lambda: not any(is_up(state) for state in states))
        cell.hosts.pop("gpu-1")
        small = cell.add_host_at(host, gpus=2)
        await until_so(lambda: _has(cell.shown(), "ready", 1))
        cell.add_host("gpu-2")
        await cell.settled(2)
        assert cell.by_host() == {"gpu-1": 1, "gpu-2": 1}
        assert small.name == "gpu-1"


async def test_of_two_operators_one_wins_and_the_other_is_told(store: Store, folder: Path) -> None:
    async with deployed_cell(store, folder, hosts=1) as cell:
        deployments = cell.deployments

        async def apply(count: int) -> str:
            spec = DeploymentSpec(MODEL, ReplicaRange(count, count))
            wanted = [resolve("pair", spec, cell.catalogue)]
            try:
                await deployments.apply(wanted, {"pair": 1}, Author(str(count)))
            except Conflict as lost:
                return lost.message
            return ""

        await cell.apply(replicas={"min": 0, "max": 0})
        told = await asyncio.gather(apply(1), apply(2), apply(3))
        assert told.count("") == 1
        losers = [each for each in told if each]
        assert all("has revision 2 by now, and you saw 1" in each for each in losers)
        newest = (await deployments.history("pair"))[0]
        assert newest.made_by == str(told.index("") + 1)


async def test_two_control_processes_place_nothing_twice(store: Store, folder: Path) -> None:
    async with deployed_cell(store, folder, hosts=2) as cell:
        await cell.apply(replicas={"min": 4, "max": 4})
        await asyncio.gather(*(cell.loop.step() for _ in range(4)))
        [(count,)] = await _rows(store, "select count(*) from assignments")
        assert count == 4
        await cell.settled(4)


async def _has(shown: object, field: str, value: object) -> bool:
    found = getattr(await shown, field)  # type: ignore[misc]
    return value in found if isinstance(value, str) else bool(found == value)


async def _is_gone(found: object) -> bool:
    try:
        await found  # type: ignore[misc]
    except NotFound:
        return True
    return False


async def _is_empty(store: Store, table: str) -> bool:
    return await _rows(store, f"select count(*) from {table}") == [(0,)]


async def _rows(store: Store, statement: str) -> list[tuple[object, ...]]:
    async with store.transaction() as tx:
        if statement.startswith("alter"):
            await tx.execute(statement)
            return []
        return list(await tx.fetch(statement))
