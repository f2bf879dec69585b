"""A keeper fetches weights before it starts an engine; the replica waits, says so, and stays."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT
from tests.integration.cells.runtime_dsn import runtime_dsn
from tests.integration.fleet.deployed_cell import (
    MODEL,
    DeployedCell,
    catalogue,
    deployed_cell,
    until_so,
)
from tests.integration.fleet.held_bucket import NAME, SIZE, HeldBucket, held_bucket
from tests.integration.fleet.watched_keeper import own_ports, state_folder, states_in

from penstock.catalogue import Catalogue
from penstock.clock import SystemClock
from penstock.fleet.hosts import HostReports, SeenHost
from penstock.fleet.roster import RosterMirror
from penstock.fleet.settings import FleetSettings
from penstock.fleet.weights.weight_folder import bytes_in, folder_of, is_complete
from penstock.records.model import ModelId, Weights
from penstock.store import Store

_ENTRY = f"""
id = "{MODEL}"
family = "openai"
context_tokens = 100_000
[recipe]
served_name = "m"
command = ["{sys.executable}", "-m", "penstock.testing.scripted_engine", "--model", "m",
    "--host", "{{address}}", "--port", "{{port}}"]
environment = {{ MODEL_FOLDER = "{{weights}}" }}
[recipe.weights]
source = "s3://models/one"
gigabytes = 0.1
"""
_HALF_DONE = "fetches its weights: 0.1 of 0.1 GB"


@pytest.fixture
def bucket() -> Iterator[HeldBucket]:
    with held_bucket() as made:
        yield made


@pytest.fixture
async def weights_store(dsn: str, bucket: HeldBucket) -> AsyncIterator[Store]:
    """A store whose keepers find the bucket."""
    opened = Store(bucket.settings(dsn))
    await opened.open()
    yield opened
    await opened.close()


class KeeperProcess:
    """`penstock keeper` with one wanted replica."""

    def __init__(self, folder: Path, dsn: str, bucket: HeldBucket) -> None:
        (folder / "models").mkdir()
        (folder / "models" / "one.toml").write_text(_ENTRY)
        self._folder = folder
        store = bucket.settings(dsn)
        settings = {
            "STORE_DSN": runtime_dsn(dsn),
            "STORE_OBJECTS_ENDPOINT": store.objects_endpoint,
            "STORE_OBJECTS_ACCESS_KEY": "any",
            "STORE_OBJECTS_SECRET_KEY": "any",
            "STORE_OBJECTS_SECONDS": 5,
            "CATALOGUE_FOLDER": folder / "models",
            "SIGNALS_TRANSPORT": "off",
            "PULLER_ENABLED": "false",
            "FLEET_STATE_FOLDER": folder,
            "FLEET_WEIGHTS_FOLDER": folder / "weights",
            "FLEET_HEARTBEAT_SECONDS": 0.1,
            "FLEET_METRICS_PORT": 0,
            "FLEET_PORT_FIRST": own_ports(24000, 100),
            "FLEET_PORT_LAST": own_ports(24000, 100) + 99,
            "FLEET_REPLICAS": f'[{{model = "{MODEL}"}}]',
        }
        self._environment = {f"PENSTOCK_{name}": str(value) for name, value in settings.items()}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._folder / "keeper.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "penstock", "keeper", "--parent-pid", str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={**CHILD_ENVIRONMENT, **self._environment},
            )

    def terminate(self) -> int:
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(15)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(10)


async def test_a_killed_keeper_goes_on_with_the_fetch_and_the_replica_gets_ready(
    dsn: str, weights_store: Store, bucket: HeldBucket, tmp_path: Path
) -> None:
    mirror = RosterMirror(weights_store, SystemClock(), FleetSettings())
    target = folder_of(str(tmp_path / "weights"), "s3://models/one")
    with state_folder(tmp_path):
        keeper = KeeperProcess(tmp_path, dsn, bucket)
        keeper.start()
        try:
            await until_so(lambda: _fetching(weights_store, MODEL, _HALF_DONE))
            await until_so(lambda: _has_bytes(target, SIZE // 2))
            assert not states_in(tmp_path), "an engine was started without its weights"
            assert not is_complete(target, "s3://models/one")
        finally:
            keeper.kill()
        bucket.asked.clear()
        bucket.let_go()
        keeper.start()
        try:
            await until_so(lambda: _is_ready(mirror))
        finally:
            keeper.kill()
        [engine] = states_in(tmp_path)
        assert engine["environment"]["MODEL_FOLDER"] == str(target)
    assert is_complete(target, "s3://models/one")
    assert (target / NAME).stat().st_size == SIZE
    # The server answers also what the killed keeper had asked and did not wait for.
    assert min(each for each in bucket.asked if each >= 0) >= SIZE // 2
    assert len([each for each in bucket.asked if each >= 0]) <= 2 * (SIZE // 2) // (8 * 2**20)


async def test_a_keeper_that_is_told_to_end_ends_its_fetch(
    dsn: str, weights_store: Store, bucket: HeldBucket, tmp_path: Path
) -> None:
    target = folder_of(str(tmp_path / "weights"), "s3://models/one")
    with state_folder(tmp_path):
        keeper = KeeperProcess(tmp_path, dsn, bucket)
        keeper.start()
        try:
            await until_so(lambda: _fetching(weights_store, MODEL, _HALF_DONE))
            assert await asyncio.to_thread(keeper.terminate) == 0
        finally:
            keeper.kill()
    assert not is_complete(target, "s3://models/one")
    assert bytes_in(target) >= SIZE // 2, "the next keeper goes on from there"
    assert not states_in(tmp_path)


async def test_a_fetch_that_nobody_wants_any_more_stops(
    weights_store: Store, bucket: HeldBucket, hosts_folder: Path
) -> None:
    async with _cell(weights_store, hosts_folder, hosts=1) as cell:
        cell.catalogue = _with_weights("s3://models/first")
        await cell.apply()
        await until_so(lambda: _shows(cell, "fetches its weights: 0.1 of 0.1 GB"))
        await cell.deployments.remove("pair")
        await until_so(lambda: _fetches_nothing(weights_store))
        bucket.let_go()
        cell.catalogue = _with_weights("s3://models/second")
        await cell.apply("other")
        await cell.settled(1, "other")
        target = folder_of(str(hosts_folder / "weights"), "s3://models/first")
        assert not is_complete(target, "s3://models/first")


async def test_an_assignment_stays_while_its_host_fetches(
    weights_store: Store, bucket: HeldBucket, hosts_folder: Path
) -> None:
    async with _cell(weights_store, hosts_folder, hosts=2) as cell:
        cell.catalogue = _with_weights("s3://models/first")
        await cell.apply()
        await until_so(lambda: _shows(cell, "fetches its weights: 0.1 of 0.1 GB"))
        placed = await _assignments(weights_store)
        assert len(placed) == 1
        # Many looks of control, and reports of the host.
        await asyncio.sleep(2.0)
        assert await _assignments(weights_store) == placed
        assert not cell.engines()
        bucket.let_go()
        shown = await cell.settled(1)
        assert await _assignments(weights_store) == placed
        assert shown.fetches == ""
        assert bucket.lists == 1


async def test_a_rollout_is_not_late_because_of_a_fetch(
    weights_store: Store, bucket: HeldBucket, hosts_folder: Path
) -> None:
    async with _cell(weights_store, hosts_folder, hosts=1) as cell:
        await cell.apply()
        await cell.settled(1)
        old = {replica.id for replica in cell.ready()}
        # A rollout halts when a replica is not ready after one and a half times as long.
        cell.catalogue = _with_weights("s3://models/second", start_seconds_max=3)
        await cell.apply()
        await until_so(lambda: _shows(cell, "fetches its weights: 0.1 of 0.1 GB"))
        await asyncio.sleep(6.0)
        shown = await cell.shown()
        assert (shown.stage, shown.reason) == ("rolling", "")
        assert {replica.id for replica in cell.ready()} == old, "the old replica serves meanwhile"
        bucket.let_go()
        shown = await cell.settled(1)
        assert shown.stable == shown.launch == 2
        assert old.isdisjoint(replica.id for replica in cell.ready())


async def test_a_rollout_halts_when_its_fetch_brings_nothing_more(
    weights_store: Store,
    bucket: HeldBucket,
    hosts_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.fleet.weights.fetch_loop._STALL_SECONDS_MAX", 1.0)
    async with _cell(weights_store, hosts_folder, hosts=1) as cell:
        await cell.apply()
        await cell.settled(1)
        cell.catalogue = _with_weights("s3://models/second", start_seconds_max=3)
        await cell.apply()
        await until_so(lambda: _shows(cell, "fetches its weights: 0.1 of 0.1 GB"))
        await until_so(lambda: _has_halted(cell))
        bucket.let_go()


async def test_a_fetch_that_fails_is_tried_again_and_says_why(
    weights_store: Store, tmp_path: Path, hosts_folder: Path
) -> None:
    source = tmp_path / "mount"
    async with _cell(weights_store, hosts_folder, hosts=1) as cell:
        cell.catalogue = _with_weights(str(source))
        await cell.apply()
        await until_so(lambda: _shows(cell, f"cannot fetch its weights: {source} is not a folder"))
        [host] = await HostReports(weights_store).read()
        assert not host.report.waiting
        source.mkdir()
        (source / "model.safetensors").write_bytes(b"weights")
        shown = await cell.settled(1)
        assert shown.fetches == ""


async def test_a_recipe_that_does_not_read_its_weights_waits_for_none(
    weights_store: Store, bucket: HeldBucket, hosts_folder: Path
) -> None:
    async with _cell(weights_store, hosts_folder, hosts=1) as cell:
        cell.catalogue = _with_weights("s3://models/first", environment={})
        await cell.apply()
        await cell.settled(1)
        assert bucket.lists == 0


def _cell(store: Store, folder: Path, hosts: int) -> Any:
    return deployed_cell(store, folder, hosts, weights_folder=str(folder / "weights"))


def _with_weights(source: str, **changes: Any) -> Catalogue:
    model = catalogue().find(MODEL)
    fields = {
        "weights": Weights(source, 0.1),
        "environment": {"MODEL_FOLDER": "{weights}"},
        **changes,
    }
    recipe = msgspec.structs.replace(model.recipe, **fields)
    return Catalogue([msgspec.structs.replace(model, recipe=recipe)])


async def _hosts(store: Store) -> list[SeenHost]:
    return await HostReports(store).read()


async def _fetching(store: Store, model: ModelId, reason: str) -> bool:
    return any(host.report.fetching.get(model) == reason for host in await _hosts(store))


async def _fetches_nothing(store: Store) -> bool:
    return not any(host.report.fetching for host in await _hosts(store))


async def _has_bytes(folder: Path, count: int) -> bool:
    return bytes_in(folder) >= count


async def _is_ready(mirror: RosterMirror) -> bool:
    await mirror.poll()
    return len(mirror.ready(MODEL)) == 1


async def _shows(cell: DeployedCell, text: str) -> bool:
    return text in (await cell.shown()).fetches


async def _has_halted(cell: DeployedCell) -> bool:
    return (await cell.shown()).stage == "halted"


async def _assignments(store: Store) -> list[Any]:
    async with store.statement() as statement:
        return await statement.fetch("select id, keeper, ending from assignments order by id")
