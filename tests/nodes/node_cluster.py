"""A control plane with nodes, in the network namespace of the program that starts it."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import httpx2
from lightkube import ApiError, Client, KubeConfig
from lightkube.resources.core_v1 import Node as NodeObject
from lightkube.resources.core_v1 import NodeStatus
from tests.integration.kubernetes.cluster_keys import make_client
from tests.integration.kubernetes.cluster_programs import (
    cache_folder,
    debian,
    etcd_program,
    kube_programs,
)
from tests.integration.kubernetes.control_plane import ControlPlane
from tests.nodes.image_archives import write_image
from tests.nodes.node import Node
from tests.nodes.node_files import PAUSE_IMAGE
from tests.nodes.pod_network import BRIDGE_ADDRESS

GRACE_SECONDS: Final = 8
_PACKAGES = ("containerd", "runc", "containernetworking-plugins", "busybox-static")
_READY_SECONDS = 180.0


def fetch_programs(archive: Path) -> None:
    """Bring all programs into the cache: a cluster's own network leads nowhere."""
    kube_programs(archive)
    etcd_program()
    for package in _PACKAGES:
        debian(package)


class NodesControlPlane(ControlPlane):
    """It runs controllers too, and listens where pods look for an API server."""

    def __init__(self, folder: Path, archive: Path) -> None:
        super().__init__(folder, archive)
        self.address, self.port = BRIDGE_ADDRESS, 443

    def start(self) -> None:
        super().start()
        keys = self.keys
        self.start_program(
            "kube-controller-manager",
            *self.leads_alone("kube-controller-manager"),
            "--use-service-account-credentials=true",
            f"--root-ca-file={keys}/ca.crt",
            f"--service-account-private-key-file={keys}/accounts.key",
            f"--node-monitor-grace-period={GRACE_SECONDS}s",
            f"--node-monitor-period={GRACE_SECONDS / 4}s",
        )

    def server_arguments(self) -> tuple[str, ...]:
        keys = self.keys
        if not (keys / "kubelets.crt").exists():
            make_client(keys, "kubelets", "kube-apiserver", "system:masters")
        return (
            "--bind-address=0.0.0.0",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--client-ca-file={keys}/ca.crt",
            # Logs, and commands in containers: the API server calls the kubelet.
            f"--kubelet-client-certificate={keys}/kubelets.crt",
            f"--kubelet-client-key={keys}/kubelets.key",
            "--kubelet-preferred-address-types=InternalIP",
        )


class NodeCluster:
    """Nodes by number, from 1 on."""

    def __init__(
        self, folder: Path, archive: Path, images: Sequence[Path], gpus: Sequence[int]
    ) -> None:
        self.plane = NodesControlPlane(folder, archive)
        pause = cache_folder() / "pause.tar"
        if not pause.exists():
            busybox = debian("busybox-static") / "bin" / "busybox"
            write_image(pause, PAUSE_IMAGE, busybox, ["sleep", "2147483647"])
        self.nodes = {
            number: Node(self.plane, number, (pause, *images), GRACE_SECONDS)
            for number in range(1, len(gpus) + 1)
        }
        self._gpus = dict(enumerate(gpus, start=1))

    def start(self) -> None:
        self.plane.start()
        for node in self.nodes.values():
            node.start()
        for number in self.nodes:
            self.wait_ready(number)

    def stop(self) -> None:
        for node in self.nodes.values():
            node.stop()
        self.plane.stop()

    def client(self, namespace: str = "default") -> Client:
        config = KubeConfig.from_file(self.plane.config_file)
        return Client(config=config, namespace=namespace, trust_env=False)

    def wait_ready(self, number: int) -> None:
        """Wait until a node is ready and says that it has its GPUs, which are made up."""
        client, node = self.client(), self.nodes[number]
        wanted = {"nvidia.com/gpu": str(self._gpus[number])}

        def is_ready() -> bool:
            assert not node.has_ended, f"{node.name} ended"
            client.patch(NodeStatus, node.name, {"status": {"capacity": wanted}})
            found = client.get(NodeObject, node.name).status
            assert found is not None
            states = {each.type: each.status for each in found.conditions or []}
            return (
                states.get("Ready") == "True"
                and wanted.items() <= (found.allocatable or {}).items()
            )

        wait_until(is_ready, _READY_SECONDS, f"{node.name} is ready")


def wait_until(is_so: Callable[[], bool], seconds: float, what: str) -> None:
    """Ask until it is so; an API server that does not answer is asked again."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(ApiError, httpx2.TransportError):
            if is_so():
                return
        assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.3)


@contextmanager
def node_cluster(
    folder: Path, archive: Path, images: Sequence[Path], gpus: Sequence[int]
) -> Iterator[NodeCluster]:
    cluster = NodeCluster(folder, archive, images, gpus)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
