"""What operators ask of keepers: cordon and drain hosts, drain and restart replicas, read logs."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.integration.cells.cell_key import key_file
from tests.integration.cells.commands import Penstock, read
from tests.integration.fleet.one_model import MODEL, catalogue_of_one
from tests.integration.fleet.watched_keeper import (
    WatchedKeeper,
    quick_settings,
    running,
    state_folder,
    states_in,
    until,
)

from penstock.clock import SystemClock
from penstock.errors import Conflict, NotFound
from penstock.fleet.hosts import HostReports
from penstock.fleet.orders import OrderTable, ReplicaOrder
from penstock.fleet.reconcile import Keeper
from penstock.fleet.replica_logs import ReplicaLogs
from penstock.fleet.replica_rows import ReplicaRows
from penstock.fleet.settings import FleetSettings, WantedReplicas
from penstock.records.replica import Replica
from penstock.records.signal import EngineClaim
from penstock.store import Sealing, Store, StoreSettings

_LONG = '@script {"tokens": 200, "interval": 0.1}'


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with state_folder(tmp_path) as made:
        yield made


def settings_for(folder: Path) -> FleetSettings:
    return quick_settings(folder, replicas=(WantedReplicas(MODEL),), host="gpu-1")


@asynccontextmanager
async def keeping(
    store: Store, folder: Path, sealing: Sealing | None = None
) -> AsyncIterator[WatchedKeeper]:
    watched = WatchedKeeper(store, settings_for(folder), catalogue_of_one(), sealing)
    async with running(watched):
        yield watched


@asynccontextmanager
async def streaming(replica: Replica) -> AsyncIterator[AsyncIterator[str]]:
    """An open stream of 20 seconds at the engine itself."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": _LONG}]}
    async with httpx.AsyncClient(timeout=30) as client:
        url = f"{replica.url}/v1/chat/completions"
        async with client.stream("POST", url, json=body) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            yield lines


async def test_a_cordoned_host_starts_nothing_even_after_its_keepers_restart(
    store: Store, folder: Path
) -> None:
    orders = OrderTable(store)
    async with keeping(store, folder) as watched:
        first = await watched.ready()
        await orders.cordon("gpu-1", is_cordoned=True)
        await until((folder / "orders.json").exists)
        [state] = states_in(folder)
        os.killpg(state["engine_pid"], signal.SIGKILL)
        await until(lambda: not watched.mirror.ready(MODEL))
        await until_waiting(store, "this host is cordoned")
        assert len(states_in(folder)) == 1
    async with keeping(store, folder) as watched:
        await asyncio.sleep(1.0)
        assert len(states_in(folder)) == 1
        await orders.cordon("gpu-1", is_cordoned=False)
        second = await watched.ready(other_than=first.id)
    assert second.id != first.id
    with pytest.raises(NotFound, match="no host gpu-2"):
        await orders.cordon("gpu-2", is_cordoned=True)


async def test_a_drained_host_ends_its_replicas_and_comes_back(store: Store, folder: Path) -> None:
    orders = OrderTable(store)
    async with keeping(store, folder) as watched:
        first = await watched.ready()
        await orders.cordon("gpu-1", is_cordoned=True, is_draining=True)
        await until(lambda: not watched.mirror.all())
        [row] = await ReplicaRows(store).read(with_gone=True)
        assert (row.id, row.detail) == (first.id, "its host is drained")
        await orders.cordon("gpu-1", is_cordoned=False)
        await watched.ready(other_than=first.id)


async def test_a_restart_does_not_wait_for_streams(store: Store, folder: Path) -> None:
    async with keeping(store, folder) as watched:
        first = await watched.ready()
        async with streaming(first) as lines:
            await OrderTable(store).ask(first.id, ReplicaOrder.RESTART)
            await watched.ready(other_than=first.id)
            with pytest.raises(httpx.TransportError):
                async for _ in lines:
                    pass


async def test_a_drain_waits_for_streams_and_a_restart_overtakes_it(
    store: Store, folder: Path
) -> None:
    orders = OrderTable(store)
    async with keeping(store, folder) as watched:
        first = await watched.ready()
        async with streaming(first) as lines:
            await orders.ask(first.id, ReplicaOrder.DRAIN)
            await until(lambda: not watched.mirror.ready(MODEL))
            for _ in range(10):
                await anext(lines)
            [row] = await ReplicaRows(store).read()
            assert (row.state, row.asked) == ("draining", "drain")
            await orders.ask(first.id, ReplicaOrder.RESTART)
            await watched.ready(other_than=first.id)
            with pytest.raises(httpx.TransportError):
                async for _ in lines:
                    pass


async def test_logs_come_from_the_keeper_and_are_sealed_on_the_way(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    sealing = Sealing(store, StoreSettings(cell_key_file=key_file(tmp_path)))
    logs = ReplicaLogs(store, sealing)
    async with keeping(store, folder, sealing) as watched:
        replica = await watched.ready()
        log = folder / "replicas" / replica.id / "engine.log"
        with log.open("ab") as file:
            file.write(b"a line of the engine\n")
        part = await logs.read(replica.id, None)
        assert part.text.endswith("a line of the engine\n")
        assert part.position == log.stat().st_size
        with log.open("ab") as file:
            file.write(b"and one more\n")
        following = await logs.read(replica.id, part.position)
        assert following.text == "and one more\n"
        kept = await _answer_kept(store, watched, replica.id)
        assert b"and one more" not in kept
    with pytest.raises(NotFound):
        await logs.read("never", None)


async def _answer_kept(store: Store, watched: WatchedKeeper, replica: str) -> bytes:
    """What lies in Postgres between the keeper's answer and its reading."""
    async with store.statement() as statement:
        await statement.execute(
            "insert into replica_logs (id, replica) values (gen_random_uuid(), %s)", (replica,)
        )
    for _ in range(100):
        async with store.statement() as statement:
            row = await statement.fetch_one(
                "delete from replica_logs where position is not null returning text"
            )
        if row is not None:
            return bytes(row[0])
        await asyncio.sleep(0.05)
    raise AssertionError("the keeper did not answer")


async def test_logs_of_a_lost_host_are_not_waited_for_forever(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.fleet.replica_logs._WAIT_SECONDS", 0.5)
    async with keeping(store, folder) as watched:
        replica = await watched.ready()
    with pytest.raises(Conflict, match="is its host up"):
        await ReplicaLogs(store, None).read(replica.id, None)
    async with store.statement() as statement:
        assert await statement.fetch("select 1 from replica_logs") == []


async def test_what_engines_do_is_in_the_roster(store: Store, folder: Path) -> None:
    keeper = Keeper(settings_for(folder), catalogue_of_one(), store, SystemClock())

    async def announce(_: str, claims: Callable[[float], Sequence[EngineClaim]]) -> None:
        await asyncio.Event().wait()

    rows = ReplicaRows(store)
    async with asyncio.TaskGroup() as group:
        keeping = group.create_task(keeper.run(announce=announce))
        try:
            await until(lambda: bool(keeper.ready()))
            async with streaming(keeper.ready()[0]):
                for _ in range(100):
                    [row] = await rows.read()
                    if row.load.running == 1:
                        break
                    await asyncio.sleep(0.05)
            assert row.load.running == 1
        finally:
            keeper.stop()
            await keeping


async def test_commands_show_and_change_hosts_and_replicas(
    store: Store, folder: Path, penstock: Penstock
) -> None:
    async with keeping(store, folder) as watched:
        first = await watched.ready()
        listed = await asyncio.to_thread(penstock, "replicas", "list")
        assert first.id in listed.stdout
        shown = read(await asyncio.to_thread(penstock, "replicas", "show", first.id, "--json"))
        assert (shown["host"], shown["state"]) == ("gpu-1", "ready")
        asked = read(await asyncio.to_thread(penstock, "replicas", "drain", first.id, "--json"))
        assert asked["asked"] == "drain"
        second = await watched.ready(other_than=first.id)
        read(await asyncio.to_thread(penstock, "replicas", "restart", second.id, "--json"))
        third = await watched.ready(other_than=second.id)
        logs = await asyncio.to_thread(penstock, "replicas", "logs", third.id)
        assert logs.exit_code == 0, logs.output
        cordoned = await asyncio.to_thread(penstock, "hosts", "cordon", "gpu-1")
        assert cordoned.stdout == "host gpu-1 cordoned\n"
        drained = read(await asyncio.to_thread(penstock, "hosts", "drain", "gpu-1", "--json"))
        assert drained[0]["is_draining"]
        await until(lambda: not watched.mirror.all())
        await until_waiting(store, "this host is cordoned")
        table = (await asyncio.to_thread(penstock, "hosts", "list")).stdout
        assert "draining" in table
        assert "this host is cordoned" in table
        read(await asyncio.to_thread(penstock, "hosts", "uncordon", "gpu-1", "--json"))
        await watched.ready()
    gone = read(await asyncio.to_thread(penstock, "replicas", "list", "--gone", "--json"))
    assert {row["state"] for row in gone["replicas"]} == {"gone", "ready"}
    assert (await asyncio.to_thread(penstock, "replicas", "drain", "never")).exit_code == 4


async def until_waiting(store: Store, reason: str) -> None:
    for _ in range(400):
        hosts = await HostReports(store).read()
        if any(reason in each.report.waiting.values() for each in hosts):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"no replica waits because {reason}")
