"""A host with GPUs, told by its settings: real keepers, and engines that check their own GPUs."""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cells.cell_key import key_file
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
from penstock.errors import ReplicaUnreachable
from penstock.fleet.health import EngineProbe
from penstock.fleet.hosts import HostReports
from penstock.fleet.orders import OrderTable, ReplicaOrder
from penstock.fleet.settings import FleetSettings, WantedReplicas
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.store import Sealing, Store, StoreSettings

_PAIR, _ONE, _CPU = ModelId("@cf/test/pair"), ModelId("@cf/test/one"), ModelId("@cf/test/cpu")
_ENVIRONMENT = {"VLLM_API_KEY": "{engine_key}"}


def catalogue(folder: Path) -> Catalogue:
    """Models of two, one and no GPUs; their engines end if another engine has one of theirs."""
    command = (
        *(sys.executable, "-m", "penstock.testing.scripted_engine", "--model", "m"),
        *("--host", "{address}", "--port", "{port}"),
    )
    checked = (*command, "--gpu-folder", str(folder / "gpus"))
    return Catalogue(
        [
            Model(_PAIR, Family.OPENAI, 8192, Recipe(checked, _ENVIRONMENT, "m", gpus=2)),
            Model(_ONE, Family.OPENAI, 8192, Recipe(checked, _ENVIRONMENT, "m", gpus=1)),
            Model(_CPU, Family.OPENAI, 8192, Recipe(command, {}, "m")),
        ]
    )


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with state_folder(tmp_path) as made:
        yield made


def settings_for(folder: Path, *wanted: WantedReplicas, **changes: Any) -> FleetSettings:
    return quick_settings(folder, replicas=wanted, host="gpu-1", **changes)


@asynccontextmanager
async def keeping(
    store: Store, settings: FleetSettings, folder: Path, sealing: Sealing | None = None
) -> AsyncIterator[WatchedKeeper]:
    watched = WatchedKeeper(store, settings, catalogue(folder), sealing)
    async with running(watched):
        yield watched


def visible(folder: Path) -> list[str]:
    """What each engine that runs sees of the GPUs."""
    states = [state for state in states_in(folder) if is_up(state)]
    return [state["environment"].get("CUDA_VISIBLE_DEVICES", "") for state in states]


def doubles(folder: Path) -> list[str]:
    return [path.name for path in (folder / "gpus").glob("double-*")]


async def waiting(store: Store) -> dict[str, str]:
    return {
        want: reason
        for host in await HostReports(store).read()
        for want, reason in host.report.waiting.items()
    }


async def test_replicas_get_gpus_of_their_own_and_the_host_is_reported(
    store: Store, folder: Path
) -> None:
    wanted = (WantedReplicas(_PAIR, count=2), WantedReplicas(_CPU))
    settings = settings_for(folder, *wanted, gpus=4, labels={"gpu": "h200"})
    async with keeping(store, settings, folder) as watched:
        await watched.ready(count=2)
        assert sorted(visible(folder)) == ["", "0,1", "2,3"]
        (host,) = await HostReports(store).read()
        report = host.report
        assert (report.name, report.address, report.labels) == (
            "gpu-1",
            "127.0.0.1",
            {"gpu": "h200"},
        )
        assert [gpu.id for gpu in report.gpus] == ["0", "1", "2", "3"]
        assert report.waiting == {}
        assert report.versions == {}
        assert host.silent_seconds < 10
        async with store.statement() as statement:
            rows = await statement.fetch("select gpus from replicas where model = %s", (_PAIR,))
        assert sorted(row[0] for row in rows) == [["0", "1"], ["2", "3"]]
    assert doubles(folder) == []


async def test_what_finds_no_gpu_waits_and_says_why_until_there_is_one(
    store: Store, folder: Path
) -> None:
    wanted = (WantedReplicas(_ONE, count=1), WantedReplicas(_PAIR, count=1))
    async with keeping(store, settings_for(folder, *wanted, gpus=2), folder) as watched:
        await watched.ready()
        await _until_reported(store, "needs 2 GPUs; of 2 here 1 are held by replicas")
        assert visible(folder) == ["0"]
        async with store.statement() as statement:
            rows = await statement.fetch("select model from replicas")
        # It waits without a row: nothing was started that could fail.
        assert [row[0] for row in rows] == [_ONE]
    settings = settings_for(folder, WantedReplicas(_PAIR, count=1), gpus=2)
    async with keeping(store, settings, folder) as watched:
        await watched.ready()
        assert visible(folder) == ["0,1"]
        assert await waiting(store) == {}
    assert doubles(folder) == []


async def _until_reported(store: Store, reason: str) -> None:
    deadline = time.monotonic() + 20
    while list((told := await waiting(store)).values()) != [reason]:
        assert time.monotonic() < deadline, told
        await asyncio.sleep(0.05)


async def test_an_adopted_replica_keeps_its_gpus_and_its_key(store: Store, folder: Path) -> None:
    settings = settings_for(folder, WantedReplicas(_ONE), gpus=2, engine_keys=True)
    async with keeping(store, settings, folder) as watched:
        first = await watched.ready()
    two = settings_for(folder, WantedReplicas(_ONE, count=2), gpus=2, engine_keys=True)
    async with keeping(store, two, folder) as watched:
        adopted = await watched.ready(count=2)
        assert (adopted.id, adopted.generation) == (first.id, 2)
        assert sorted(visible(folder)) == ["0", "1"]
        kept = watched.keeper.replicas()
        assert [replica.gpus for replica in kept] == [("0",), ("1",)]
        assert len({replica.engine_key for replica in kept}) == 2
    assert doubles(folder) == []


async def test_a_replica_that_does_not_say_its_gpus_may_have_any_of_them(
    store: Store, folder: Path
) -> None:
    settings = settings_for(folder, WantedReplicas(_ONE), gpus=2)
    async with keeping(store, settings, folder) as watched:
        first = await watched.ready()
    file = folder / "replicas" / first.id / "state.json"
    told = json.loads(file.read_bytes())
    # As a keeper of an earlier release has written it.
    del told["gpus"]
    file.write_text(json.dumps(told))
    two = settings_for(folder, WantedReplicas(_ONE, count=2), gpus=2)
    async with keeping(store, two, folder):
        await _until_reported(store, "needs 1 GPU; of 2 here 2 are held by replicas")
        assert visible(folder) == ["0"]


async def test_a_drained_replica_gives_its_gpu_to_the_next(store: Store, folder: Path) -> None:
    settings = settings_for(folder, WantedReplicas(_ONE), gpus=1)
    async with keeping(store, settings, folder) as watched:
        old = await watched.ready()
        await OrderTable(store).ask(old.id, ReplicaOrder.DRAIN)
        await watched.ready(other_than=old.id)
        assert visible(folder) == ["0"]
    assert doubles(folder) == []


async def test_an_engine_wants_its_key_which_is_sealed_in_the_roster(
    store: Store, folder: Path, tmp_path: Path
) -> None:
    sealing = Sealing(store, StoreSettings(cell_key_file=key_file(tmp_path)))
    settings = settings_for(folder, WantedReplicas(_ONE), gpus=1, engine_keys=True)
    async with keeping(store, settings, folder, sealing) as watched:
        replica = await watched.ready()
        assert len(replica.engine_key) >= 32
        probe = EngineProbe(FleetSettings())
        assert await probe.served_names(replica) == ("m",)
        for key in ("", "another"):
            with pytest.raises(ReplicaUnreachable, match="401"):
                await probe.served_names(replica_at(replica.url, key))
        async with store.statement() as statement:
            row = await statement.fetch_one("select engine_key from replicas")
        assert row is not None
        assert row[0]
        assert replica.engine_key.encode() not in bytes(row[0])
    # A reader without the cell's key learns nothing.
    stranger = WatchedKeeper(store, settings, catalogue(folder))
    await stranger.mirror.load()
    assert [each.engine_key for each in stranger.mirror.all()] == [""]


@pytest.mark.parametrize("has_accounts", [False, True])
async def test_a_cell_that_was_in_use_before_goes_on_without_keys(
    store: Store, folder: Path, has_accounts: bool
) -> None:
    async with store.statement() as statement:
        await statement.execute(
            "update cell_defaults set gives_engine_keys = %s", (not has_accounts,)
        )
    settings = settings_for(folder, WantedReplicas(_ONE), gpus=1)
    async with keeping(store, settings, folder) as watched:
        await watched.ready()
        (replica,) = watched.keeper.replicas()
        assert bool(replica.engine_key) is not has_accounts
        assert await EngineProbe(FleetSettings()).served_names(replica) == ("m",)


async def test_engines_start_without_keys_while_postgres_is_away(folder: Path) -> None:
    store = Store(StoreSettings(dsn="host=127.0.0.1 port=1", acquire_seconds=0.2))
    await store.open()
    settings = settings_for(folder, WantedReplicas(_ONE), gpus=1)
    watched = WatchedKeeper(store, settings, catalogue(folder))
    async with running(watched):
        await until(lambda: len(watched.keeper.ready()) == 1)
        assert [replica.engine_key for replica in watched.keeper.replicas()] == [""]
    await store.close()
