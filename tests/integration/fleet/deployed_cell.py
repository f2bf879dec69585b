"""Keepers that obey deployments, control's loop, and what gateways and engines see of it.

Every keeper has a folder and a host's name of its own, as if on a machine of its own; the engines
are real processes, which end if another one has one of their GPUs.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from tests.integration.cells.cell_key import key_file
from tests.integration.cells.gateway_process import GatewayProcess
from tests.integration.cells.runtime_dsn import runtime_dsn
from tests.integration.fleet.watched_keeper import is_up, own_ports, quick_settings, states_in

from penstock.catalogue import Catalogue
from penstock.clock import SystemClock
from penstock.fleet.cell.deployments import Author, Deployments, ShownDeployment, resolve
from penstock.fleet.cell.loop import DeploymentLoop
from penstock.fleet.reaper import Reaper
from penstock.fleet.reconcile import Keeper
from penstock.fleet.roster import RosterMirror
from penstock.records.deployment import DeploymentSpec
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.replica import Replica
from penstock.store import Store

MODEL = ModelId("@cf/test/pair")
# One replica of it runs on two hosts.
GANG = ModelId("@cf/test/gang")
GPUS = 4
_ENTRY = f"""
id = "{MODEL}"
family = "openai"
context_tokens = 100_000
[recipe]
served_name = "m"
command = ["x", "{{port}}"]
"""
# Short enough to be seen in a test, and longer than an engine takes to start.
LOST_BEATS = 30
_BEAT_SECONDS = 0.1


class Host:
    """One keeper, and the engines that it has started."""

    def __init__(self, name: str, folder: Path, number: int, **changes: Any) -> None:
        self.name = name
        self.folder = folder
        self.may_fail = False
        self.settings = quick_settings(
            folder,
            host=name,
            obeys="deployments",
            # Where the engines of this host check their GPUs.
            engine_home=str(folder / "gpus"),
            port_first=own_ports(25000, 400) + 20 * number,
            port_last=own_ports(25000, 400) + 20 * number + 19,
            orphan_seconds=60.0,
            **{"gpus": GPUS, "drain_seconds": 20.0, **changes},
        )
        self._keeper: Keeper | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self, store: Store, catalogue: Catalogue, tasks: asyncio.TaskGroup) -> None:
        self._keeper = Keeper(self.settings, catalogue, store, SystemClock())
        self._running = tasks.create_task(self._keeper.run())

    async def stop(self) -> None:
        """End the keeper alone; its engines go on."""
        assert self._keeper is not None
        assert self._running is not None
        self._keeper.stop()
        await asyncio.wait([self._running])
        assert self._keeper.failures == 0 or self.may_fail

    def engines(self) -> list[dict[str, Any]]:
        return [state for state in states_in(self.folder) if is_up(state)]


class DeployedCell:
    """Several hosts and one control."""

    def __init__(
        self, store: Store, folder: Path, tasks: asyncio.TaskGroup, heartbeat_seconds: float
    ) -> None:
        self._store = store
        self._folder = folder
        self._tasks = tasks
        self.hosts: dict[str, Host] = {}
        self.deployments = Deployments(store)
        settings = quick_settings(folder, heartbeat_seconds=heartbeat_seconds)
        control = msgspec.structs.replace(
            settings,
            orphan_seconds=LOST_BEATS * heartbeat_seconds,
            reap_margin_seconds=0.0,
            reap_seconds=0.2,
        )
        self._control = control
        self.loop = DeploymentLoop(store, SystemClock(), control)
        self._reaper = Reaper(store, SystemClock(), control)
        self.mirror = RosterMirror(store, SystemClock(), settings)
        self.catalogue = catalogue()
        self.fewest: list[int] = []
        self.is_control_away = False
        self.look_seconds = 0.1

    def add_host(self, name: str, **changes: Any) -> Host:
        folder = self._folder / name
        folder.mkdir()
        host = Host(name, folder, len(self.hosts), **changes)
        self.hosts[name] = host
        host.start(self._store, self.catalogue, self._tasks)
        return host

    def add_host_at(self, before: Host, **changes: Any) -> Host:
        """The same machine again, with other settings."""
        host = Host(before.name, before.folder, len(self.hosts) + 10, **changes)
        self.hosts[host.name] = host
        host.start(self._store, self.catalogue, self._tasks)
        return host

    def start_again(self, host: Host) -> None:
        host.start(self._store, self.catalogue, self._tasks)

    async def run(self) -> None:
        """Control's loops, faster than in a cell."""
        while True:
            if not self.is_control_away:
                await self.loop.step()
                await self._reaper.step()
            await asyncio.sleep(self.look_seconds)

    def replace_control(self) -> None:
        """Another control process leads from now on, which remembers nothing."""
        self.loop = DeploymentLoop(self._store, SystemClock(), self._control)

    async def follow(self) -> None:
        """What a gateway reads; notes how many replicas it could have asked."""
        while True:
            await self.mirror.poll()
            self.fewest.append(len(self.ready()))
            await asyncio.sleep(0.05)

    async def apply(self, name: str = "pair", **fields: Any) -> None:
        spec = msgspec.convert({"model": MODEL, **fields}, DeploymentSpec)
        present = {each.name: each.revision for each in await self.deployments.read()}
        wanted = [resolve(name, spec, self.catalogue)]
        await self.deployments.apply(wanted, present, Author("test"))

    def ready(self, model: ModelId = MODEL) -> tuple[Replica, ...]:
        return self.mirror.ready(model)

    def by_host(self) -> Counter[str]:
        return Counter(replica.host for replica in self.ready())

    async def shown(self, name: str = "pair") -> ShownDeployment:
        return await self.deployments.find(name)

    async def settled(self, count: int, name: str = "pair") -> ShownDeployment:
        """Wait until a deployment has so many ready replicas, and its rollout is done."""

        async def is_so() -> bool:
            shown = await self.shown(name)
            numbers = (shown.ready, shown.placed, len(self.ready(ModelId(shown.model))))
            return numbers == (count,) * 3 and shown.stage == "done"

        await until_so(is_so)
        return await self.shown(name)

    def engines(self) -> list[dict[str, Any]]:
        return [state for host in self.hosts.values() for state in host.engines()]

    def doubles(self) -> list[str]:
        """GPUs that two engines had at once, by host."""
        return [str(path) for path in self._folder.glob("gpu-*/gpus/double-*")]


def catalogue() -> Catalogue:
    command = (
        *(sys.executable, "-m", "penstock.testing.scripted_engine", "--model", "m"),
        *("--host", "{address}", "--port", "{port}", "--gpu-folder", "{engine_home}"),
    )
    pair = Recipe(command, {}, "m", gpus=2)
    parts = ("--nnodes", "{nodes}", "--node-rank", "{node_rank}")
    master = ("--master-addr", "{master_address}", "--master-port", "{master_port}")
    # Every GPU of two hosts.
    gang = msgspec.structs.replace(
        pair,
        command=(*command, *parts, *master),
        gpus=GPUS,
        hosts=2,
        part_arguments=("--headless",),
    )
    return Catalogue(
        [Model(MODEL, Family.OPENAI, 8192, pair), Model(GANG, Family.OPENAI, 8192, gang)]
    )


def gateway_of(dsn: str, folder: Path, **changes: Any) -> GatewayProcess:
    """A gateway of a cell whose hosts have their folders here; it is not started yet."""
    own = folder / "gateway"
    catalogue = own / "catalogue"
    catalogue.mkdir(parents=True)
    (catalogue / "pair.toml").write_text(_ENTRY)
    settings = {
        "store.dsn": runtime_dsn(dsn),
        "catalogue.folder": str(catalogue),
        "metering.journal_folder": str(own / "journal"),
        "store.cell_key_file": key_file(folder),
        # Hosts that are several want a bucket; nothing here is kept in it.
        "store.objects_url": "s3://nothing/here",
        "store.objects_endpoint": "http://127.0.0.1:9",
        "store.objects_access_key": "none",
        "store.objects_secret_key": "none",
        **changes,
    }
    return GatewayProcess(own, settings)


@asynccontextmanager
async def deployed_cell(
    store: Store, folder: Path, hosts: int, **changes: Any
) -> AsyncIterator[DeployedCell]:
    """So many hosts named gpu-1 and on, with four GPUs each, and control."""
    async with asyncio.TaskGroup() as tasks:
        beat = changes.get("heartbeat_seconds", _BEAT_SECONDS)
        cell = DeployedCell(store, folder, tasks, beat)
        for number in range(hosts):
            cell.add_host(f"gpu-{number + 1}", **changes)
        loops = [tasks.create_task(cell.run()), tasks.create_task(cell.follow())]
        try:
            yield cell
            assert not cell.doubles()
        finally:
            for loop in loops:
                loop.cancel()
            for host in cell.hosts.values():
                await host.stop()


async def until_so(claim: Callable[[], Any], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not await claim():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.05)
