"""Stands in for kubelets: runs the pods that the real scheduler has given to nodes.

Pods are processes at addresses 127.0.1.N. It starts what a pod's container says, reports its
address and end, and ends it when the pod is deleted, as a kubelet does; it knows no images, probes,
hooks or limits. A node that is lost runs its pods, and nobody hears of them.
"""

import asyncio
import signal
import subprocess
from pathlib import Path
from typing import Any

from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.async_client import AsyncClient
from lightkube.core.exceptions import ApiError
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Node, NodeStatus, Pod, PodStatus
from lightkube.types import PatchType
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT

_LOOK_SECONDS = 0.1
_NAMESPACE = "default"


class StandInKubelet:
    """All nodes of one cluster."""

    def __init__(self, config_file: Path, folder: Path) -> None:
        self.client = AsyncClient(
            config=KubeConfig.from_file(config_file), namespace=_NAMESPACE, trust_env=False
        )
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._addresses: dict[str, str] = {}
        self._reported: set[str] = set()
        self.lost: set[str] = set()
        # Pods that are not told to end yet, as if their hooks waited for requests.
        self.waiting: set[str] = set()

    async def add_node(self, name: str, gpus: int) -> None:
        await self._create(Node(metadata=ObjectMeta(name=name)))
        room = {"cpu": "16", "memory": "64Gi", "pods": "100", "nvidia.com/gpu": str(gpus)}
        status = {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await self.client.patch(NodeStatus, name, {"status": status})
        # No controller is there to take away what a new node is marked with.
        untainted = {"spec": {"taints": None}}
        await self.client.patch(Node, name, untainted, patch_type=PatchType.MERGE)

    async def add_owner(self, name: str = "penstock-replicas") -> None:
        await self._create(ConfigMap(metadata=ObjectMeta(name=name)))

    async def _create(self, wanted: Node | ConfigMap) -> None:
        """Create it, unless an earlier test has."""
        try:
            await self.client.create(wanted)
        except ApiError as refused:
            if refused.status.code != 409:
                raise

    async def run(self) -> None:
        while True:
            try:
                for pod in [pod async for pod in self.client.list(Pod)]:
                    await self._keep(pod)
            except Exception:  # noqa: BLE001 - the API server may be away
                await asyncio.sleep(_LOOK_SECONDS)
            await asyncio.sleep(_LOOK_SECONDS)

    async def stop(self) -> None:
        await self.client.close()
        for process in self._running.values():
            process.kill()
            process.wait()

    def kill(self, pod: str) -> None:
        self._running[pod].kill()

    async def pods(self) -> dict[str, Pod]:
        found = [pod async for pod in self.client.list(Pod)]
        return {pod.metadata.name: pod for pod in found if pod.metadata and pod.metadata.name}

    async def _keep(self, pod: Pod) -> None:
        assert pod.metadata is not None
        assert pod.spec is not None
        name = pod.metadata.name or ""
        if not pod.spec.nodeName or pod.spec.nodeName in self.lost:
            return
        process = self._running.get(name)
        if pod.metadata.deletionTimestamp:
            await self._end(name, process)
        elif process is None:
            await self._start(name, pod)
        elif process.poll() is not None and name not in self._reported:
            self._reported.add(name)
            code = process.returncode
            state = {
                "terminated": {"exitCode": 128 - code if code < 0 else code, "reason": "Error"}
            }
            await self._report(name, "Failed" if code else "Succeeded", state)

    async def _start(self, name: str, pod: Pod) -> None:
        address = f"127.0.1.{len(self._addresses) + 1}"
        self._addresses[name] = address
        assert pod.spec is not None
        container = pod.spec.containers[0]
        given = {each.name: each.value or "" for each in container.env or []}
        environment = {**CHILD_ENVIRONMENT, **given, "POD_IP": address}
        words = [*(container.command or []), *(container.args or [])]
        # A GPU of its own for each pod: the engine refuses one that another holds.
        limits = (container.resources.limits if container.resources else None) or {}
        if "nvidia.com/gpu" in limits:
            environment["CUDA_VISIBLE_DEVICES"] = name
        command = [word.replace("$(POD_IP)", address) for word in words]
        own = {key: value.replace("$(POD_IP)", address) for key, value in environment.items()}
        self._running[name] = self._spawn(name, command, own)
        await self._report(name, "Running", {"running": {}}, address)

    def _spawn(
        self, name: str, command: list[str], environment: dict[str, str]
    ) -> subprocess.Popen[bytes]:
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    async def _end(self, name: str, process: subprocess.Popen[bytes] | None) -> None:
        if process is not None and process.poll() is None:
            if name not in self.waiting:
                process.send_signal(signal.SIGTERM)
            return
        await self.client.delete(Pod, name, grace_period=0)

    async def _report(
        self, name: str, phase: str, state: dict[str, Any], address: str = ""
    ) -> None:
        container = {
            "name": "engine",
            "image": "none",
            "imageID": "",
            "ready": phase == "Running",
            "restartCount": 0,
            "state": state,
        }
        status: dict[str, Any] = {"phase": phase, "containerStatuses": [container]}
        if address:
            status |= {"podIP": address, "podIPs": [{"ip": address}]}
        try:
            await self.client.patch(PodStatus, name, {"status": status})
        except ApiError as refused:
            if refused.status.code != 404:
                raise
