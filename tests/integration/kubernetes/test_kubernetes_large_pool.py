"""A keeper's whole process with five hundred pods, which it has made itself and nobody runs."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from lightkube.core.async_client import AsyncClient
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT
from tests.integration.fleet.deployed_cell import until_so
from tests.integration.kubernetes.control_plane import ControlPlane

from penstock.catalogue import Catalogue, CatalogueSettings, load_catalogue
from penstock.clock import SystemClock
from penstock.fleet.cell.deployments import Author, Deployments, resolve
from penstock.fleet.cell.loop import DeploymentLoop
from penstock.fleet.replica_rows import ReplicaRows
from penstock.fleet.settings import FleetSettings
from penstock.records.deployment import DeploymentSpec
from penstock.records.replica import ReplicaState
from penstock.store import Store

_MODEL = "@cf/test/large"
_ENTRY = f"""
id = "{_MODEL}"
family = "openai"
context_tokens = 8192
[recipe]
served_name = "m"
command = ["vllm", "serve", "{{port}}"]
gpus = 8
"""
# One deployment has at most two hundred.
_COUNTS = {"one": 200, "two": 200, "three": 100}
_PODS = sum(_COUNTS.values())
_MEGABYTES_MAX = 80
_SETTLE_SECONDS = 5.0


async def test_a_keeper_of_five_hundred_pods_stays_small_and_quiet(
    store: Store, tmp_path: Path, cluster: ControlPlane, admin: AsyncClient, namespace: str
) -> None:
    await admin.create(ConfigMap(metadata=ObjectMeta(name="owner", namespace=namespace)))
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "large.toml").write_text(_ENTRY)
    catalogue = load_catalogue(CatalogueSettings(folder=str(tmp_path / "models")))
    with _keeper(store.settings.dsn, tmp_path, cluster, namespace) as keeper:
        async with asyncio.TaskGroup() as tasks:
            control = tasks.create_task(_control(store))
            await _deploy(store, catalogue)
            await until_so(lambda: _has_started_all(store), 90)
            await asyncio.sleep(_SETTLE_SECONDS)
            asked = cluster.keeper_requests()
            peak = _peak_megabytes(keeper.pid)
            control.cancel()
        assert keeper.poll() is None
        keeper.send_signal(signal.SIGTERM)
        assert keeper.wait(20) == 0
    assert peak <= _MEGABYTES_MAX
    # Nothing is asked for each of them again: neither its state nor its log.
    del asked["get configmaps"]
    assert asked == {"create pods": _PODS, "list pods": 1, "watch pods": 1}


async def _control(store: Store) -> None:
    loop = DeploymentLoop(store, SystemClock(), FleetSettings())
    while True:
        await loop.step()
        await asyncio.sleep(0.5)


async def _deploy(store: Store, catalogue: Catalogue) -> None:
    for name, count in _COUNTS.items():
        fields = {"model": _MODEL, "pool": "large", "replicas": {"min": count, "max": count}}
        wanted = resolve(name, msgspec.convert(fields, DeploymentSpec), catalogue)
        await Deployments(store).apply([wanted], {}, Author("test"))


async def _has_started_all(store: Store) -> bool:
    rows = await ReplicaRows(store).read(with_gone=True)
    return [row.state for row in rows] == [ReplicaState.STARTING] * _PODS


@contextmanager
def _keeper(
    dsn: str, folder: Path, cluster: ControlPlane, namespace: str
) -> Iterator[subprocess.Popen[bytes]]:
    # No scheduler has this name, so that no node runs them.
    template = "schedulerName: none\ncontainers:\n- {name: engine, image: vllm}\n"
    (folder / "pod.yaml").write_text(template)
    settings = {
        "STORE_DSN": dsn,
        "CATALOGUE_FOLDER": str(folder / "models"),
        "FLEET_OBEYS": "deployments",
        "FLEET_POOL": "large",
        "FLEET_POD_TEMPLATE": str(folder / "pod.yaml"),
        "FLEET_POD_NAMESPACE": namespace,
        "FLEET_POD_OWNER": "owner",
        "FLEET_KUBE_CONFIG_FILE": str(cluster.keeper_config_file),
        "FLEET_METRICS_PORT": "0",
        "SIGNALS_TRANSPORT": "off",
    }
    command = [sys.executable, "-m", "penstock", "keeper", "--parent-pid", str(os.getpid())]
    environment = {f"PENSTOCK_{name}": value for name, value in settings.items()}
    with (folder / "keeper.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**CHILD_ENVIRONMENT, **environment},
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _peak_megabytes(pid: int) -> float:
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024
