"""A real Kubernetes control plane on 127.0.0.1 without nodes: etcd, API server and scheduler.

Pods are made, watched, scheduled and deleted by the real programs; no kubelet runs them. It needs
no root. Its processes end with the test's.
"""

import ctypes
import http.client
import json
import os
import signal
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tests.integration.cells.gateway_process import free_port
from tests.integration.kubernetes.cluster_keys import make_keys, write_kubeconfig
from tests.integration.kubernetes.cluster_programs import etcd_program, kube_programs

_READY_SECONDS = 90.0
_USERS = {
    "admin": "system:masters",
    "keeper": "system:masters",
    "system:kube-scheduler": "",
    "system:kube-controller-manager": "",
}
# JSON is YAML too.
_AUDIT = """
{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["ResponseStarted"], "rules": [
    {"level": "Metadata", "users": ["keeper"]}, {"level": "None"}]}
"""


class ControlPlane:
    """The programs, and kubeconfigs by user."""

    def __init__(self, folder: Path, archive: Path) -> None:
        self.folder = folder
        self.keys = folder / "keys"
        self.programs = kube_programs(archive)
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._tokens = {user: os.urandom(24).hex() for user in _USERS}
        self._etcd, self._peer = free_port(), free_port()
        self.address, self.port = "127.0.0.1", free_port()

    @property
    def config_file(self) -> Path:
        return self.folder / "admin.kubeconfig"

    @property
    def url(self) -> str:
        return f"https://{self.address}:{self.port}"

    @property
    def keeper_config_file(self) -> Path:
        """For a user of its own, whose requests are noted."""
        return self.folder / "keeper.kubeconfig"

    def keeper_requests(self) -> Counter[str]:
        """Return how often that user has asked for what, such as "list pods"."""
        lines = (self.folder / "audit.log").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        return Counter(
            f"{event['verb']} {event['objectRef']['resource']}"
            for event in events
            if event["stage"] == "RequestReceived"
        )

    def start(self) -> None:
        make_keys(self.keys, self.address)
        (self.folder / "audit.yaml").write_text(_AUDIT)
        lines = [f"{token},{user},{user}" for user, token in self._tokens.items()]
        groups = [f',"{group}"' if group else "" for group in _USERS.values()]
        text = "".join(f"{line}{group}\n" for line, group in zip(lines, groups, strict=True))
        (self.keys / "tokens.csv").write_text(text)
        self._start_etcd()
        self.start_server()
        for user, token in self._tokens.items():
            path = self.folder / f"{user.removeprefix('system:')}.kubeconfig"
            write_kubeconfig(path, self.url, self.keys / "ca.crt", {"token": token})
        self.start_program("kube-scheduler", *self.leads_alone("kube-scheduler"))

    def leads_alone(self, name: str) -> tuple[str, ...]:
        """Arguments of a program that follows the API server, and serves nobody itself."""
        config = f"--kubeconfig={self.folder}/{name}.kubeconfig"
        return (config, "--port=0", "--secure-port=0", "--leader-elect=false")

    def _start_etcd(self) -> None:
        url, peer = f"http://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._peer}"
        self.start_program(
            "etcd",
            "--name=one",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls={url}",
            f"--advertise-client-urls={url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=one={peer}",
            "--unsafe-no-fsync",
            program=etcd_program(),
        )

    def start_server(self) -> None:
        """Start the API server; its data are etcd's, so it can be stopped and started again."""
        keys = self.keys
        self.start_program(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            f"--secure-port={self.port}",
            f"--advertise-address={self.address}",
            # A loopback address may not stand in an Endpoints object.
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={keys}/apiserver.crt",
            f"--tls-private-key-file={keys}/apiserver.key",
            f"--token-auth-file={keys}/tokens.csv",
            "--anonymous-auth=false",
            "--service-cluster-ip-range=10.96.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={keys}/accounts.key",
            f"--service-account-signing-key-file={keys}/accounts.key",
            "--profiling=false",
            f"--audit-policy-file={self.folder}/audit.yaml",
            f"--audit-log-path={self.folder}/audit.log",
            *self.server_arguments(),
        )
        deadline = time.monotonic() + _READY_SECONDS
        while not self._is_ready():
            assert self._children["kube-apiserver"].poll() is None, "the API server ended"
            assert time.monotonic() < deadline, "the API server is not ready"
            time.sleep(0.1)

    def server_arguments(self) -> tuple[str, ...]:
        """What differs where there are no nodes."""
        # Pods would wait for the controller that makes service accounts.
        without_accounts = "--disable-admission-plugins=ServiceAccount"
        return ("--bind-address=127.0.0.1", "--authorization-mode=RBAC", without_accounts)

    def stop_server(self) -> None:
        self._end(self._children.pop("kube-apiserver"))

    def stop(self) -> None:
        for child in reversed(list(self._children.values())):
            self._end(child)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        # In order it takes twenty seconds; etcd has all that it wrote.
        child.kill()
        child.wait()

    def start_program(self, name: str, *arguments: str, program: Path | None = None) -> None:
        command = [str(program or self.programs / name), *arguments]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._children[name] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
            )

    def _is_ready(self) -> bool:
        context = ssl.create_default_context(cafile=self.keys / "ca.crt")
        server = http.client.HTTPSConnection(self.address, self.port, timeout=5, context=context)
        headers = {"Authorization": f"Bearer {self._tokens['admin']}"}
        with closing(server), suppress(OSError):
            server.request("GET", "/readyz", headers=headers)
            return server.getresponse().status == 200
        return False


def die_with_parent() -> None:
    """The child is killed when this process ends, however it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


@contextmanager
def control_plane(folder: Path, archive: Path) -> Iterator[ControlPlane]:
    started = ControlPlane(folder, archive)
    try:
        started.start()
        yield started
    finally:
        started.stop()
