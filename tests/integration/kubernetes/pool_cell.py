"""The keeper of a pool, control's loop, what gateways see, and a cluster with two nodes."""

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg
from tests.integration.cells.gateway_process import free_port
from tests.integration.fleet.deployed_cell import until_so
from tests.integration.fleet.watched_keeper import quick_settings
from tests.integration.kubernetes.control_plane import ControlPlane
from tests.integration.kubernetes.stand_in_kubelet import StandInKubelet

from penstock.catalogue import Catalogue
from penstock.clock import SystemClock
from penstock.fleet.cell.deployments import Author, Deployments, resolve
from penstock.fleet.cell.loop import DeploymentLoop
from penstock.fleet.reconcile import Keeper
from penstock.fleet.replica_rows import ReplicaRow, ReplicaRows
from penstock.fleet.roster import RosterMirror
from penstock.records.deployment import DeploymentSpec
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.replica import Replica, ReplicaState
from penstock.store import Store

MODEL = ModelId("@cf/test/pod")
GANG = ModelId("@cf/test/pods")
POOL = "h200"
GPUS = 8


class PoolCell:
    """One pool and one control."""

    def __init__(
        self, store: Store, folder: Path, cluster: ControlPlane, tasks: asyncio.TaskGroup
    ) -> None:
        self.store = store
        self._tasks = tasks
        self.kubelet = StandInKubelet(cluster.config_file, folder)
        template = folder / "pod.yaml"
        template.write_text("containers:\n- name: engine\n  image: penstock-engine\n")
        self.settings = quick_settings(
            folder,
            obeys="deployments",
            pool=POOL,
            pod_template=str(template),
            pod_port=free_port(),
            kube_config_file=str(cluster.config_file),
            unhealthy_seconds=3.0,
            drain_seconds=20.0,
        )
        self.catalogue = _catalogue(folder)
        self.deployments = Deployments(store)
        self.mirror = RosterMirror(store, SystemClock(), self.settings)
        self._loop = DeploymentLoop(store, SystemClock(), self.settings)
        self._keeper: Keeper | None = None
        self._running: asyncio.Task[None] | None = None

    def start_keeper(self) -> None:
        self._keeper = Keeper(self.settings, self.catalogue, self.store, SystemClock())
        self._running = self._tasks.create_task(self._keeper.run())

    async def stop_keeper(self) -> None:
        assert self._keeper is not None
        assert self._running is not None
        self._keeper.stop()
        await asyncio.wait([self._running])
        assert self._keeper.failures == 0

    async def until_keeper_ends(self) -> None:
        assert self._running is not None
        async with asyncio.timeout(20):
            await asyncio.wait([self._running])

    async def lose_lock(self) -> None:
        """End the session of Postgres that holds the pool's lock."""
        async with self.store.transaction() as tx:
            [ended] = await tx.fetch(
                "select count(pg_terminate_backend(pid)) from pg_locks"
                " where locktype = 'advisory' and granted and pid <> pg_backend_pid()"
            )
        assert ended[0] >= 1

    @asynccontextmanager
    async def another_keepers_lock(self) -> AsyncIterator[None]:
        """Take the lock at the moment at which the keeper loses it, as a second keeper would."""
        name = hashlib.sha256(f"fleet/pool/{POOL}".encode()).digest()
        key = int.from_bytes(name[:8], signed=True)
        other = await psycopg.AsyncConnection.connect(self.store.settings.dsn, autocommit=True)
        async with other:
            # It waits inside Postgres, which hands the lock over before the keeper can ask again.
            waiting = self._tasks.create_task(other.execute("select pg_advisory_lock(%s)", (key,)))
            await asyncio.sleep(0.3)
            await self.lose_lock()
            await asyncio.wait([waiting])
            yield

    async def control(self) -> None:
        while True:
            await self._loop.step()
            await self.mirror.poll()
            await asyncio.sleep(0.1)

    async def apply(self, model: ModelId = MODEL, **fields: Any) -> None:
        spec = msgspec.convert({"model": model, "pool": POOL, **fields}, DeploymentSpec)
        present = {each.name: each.revision for each in await self.deployments.read()}
        wanted = [resolve("pods", spec, self.catalogue)]
        await self.deployments.apply(wanted, present, Author("test"))

    def ready(self, model: ModelId = MODEL) -> tuple[Replica, ...]:
        return self.mirror.ready(model)

    async def rows(self) -> list[ReplicaRow]:
        return await ReplicaRows(self.store).read(with_gone=True)

    async def settled(self, count: int, model: ModelId = MODEL) -> None:
        async def is_so() -> bool:
            shown = await self.deployments.find("pods")
            numbers = (shown.ready, shown.placed, len(self.ready(model)))
            return numbers == (count,) * 3 and shown.stage == "done"

        await until_so(is_so)

    async def in_state(self, replica: str, state: ReplicaState) -> None:
        async def is_so() -> bool:
            return any(row.id == replica and row.state is state for row in await self.rows())

        await until_so(is_so)

    async def clear(self) -> None:
        """Nothing is left for the next test."""
        for each in await self.deployments.read():
            await self.deployments.remove(each.name)

        async def is_empty() -> bool:
            return not await self.kubelet.pods()

        await until_so(is_empty)


def _catalogue(folder: Path) -> Catalogue:
    command = (
        *(sys.executable, "-m", "penstock.testing.scripted_engine", "--model", "m"),
        *("--host", "{address}", "--port", "{port}", "--gpu-folder", str(folder / "gpus")),
    )
    one = Recipe(command, {}, "m", gpus=2)
    parts = ("--nnodes", "{nodes}", "--node-rank", "{node_rank}")
    master = ("--master-addr", "{master_address}", "--master-port", "{master_port}")
    several = msgspec.structs.replace(
        one, command=(*command, *parts, *master), hosts=2, part_arguments=("--headless",)
    )
    return Catalogue(
        [Model(MODEL, Family.OPENAI, 8192, one), Model(GANG, Family.OPENAI, 8192, several)]
    )


@asynccontextmanager
async def pool_cell(store: Store, folder: Path, cluster: ControlPlane) -> AsyncIterator[PoolCell]:
    async with asyncio.TaskGroup() as tasks:
        cell = PoolCell(store, folder, cluster, tasks)
        pods = tasks.create_task(cell.kubelet.run())
        cell.start_keeper()
        control = tasks.create_task(cell.control())
        try:
            yield cell
            await cell.clear()
        finally:
            control.cancel()
            await cell.stop_keeper()
            pods.cancel()
            await asyncio.wait([pods])
            await cell.kubelet.stop()


async def until_true(claim: Callable[[], bool]) -> None:
    async def is_so() -> bool:
        return claim()

    await until_so(is_so)
