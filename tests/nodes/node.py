"""A node of the cluster: a real kubelet over Debian's containerd, runc and network plugins.

It has pid, mount, network, host name and IPC namespaces of its own, so it is a host of its own but
for the kernel. Needs root.
"""

import subprocess
import sys
import time
from pathlib import Path

from tests.integration.kubernetes.cluster_keys import make_client, write_kubeconfig
from tests.integration.kubernetes.cluster_programs import debian
from tests.integration.kubernetes.control_plane import ControlPlane, die_with_parent
from tests.nodes.node_cgroups import make_group, remove_group
from tests.nodes.node_files import NodePlan, write_files
from tests.nodes.pod_network import connect, set_cable

_ROOT = Path(__file__).parents[2]
_FORK_SECONDS = 10.0


class Node:
    """Started, cut off, killed and started again by tests."""

    def __init__(
        self, plane: ControlPlane, number: int, images: tuple[Path, ...], grace_seconds: int
    ) -> None:
        self.number = number
        self.name = f"node-{number}"
        self._plane = plane
        self._folder = plane.folder / self.name
        self._images = images
        self._grace_seconds = grace_seconds
        self._init: subprocess.Popen[bytes] | None = None
        self._pid = 0

    def start(self) -> None:
        """Start it; after a power cut, start it again with what is on its disk."""
        is_new = not self._folder.exists()
        self._folder.mkdir(exist_ok=True)
        plan = self._plan(self._images if is_new else ())
        write_files(plan)
        if is_new:
            self._make_kubeconfig()
        make_group(plan.group)
        self._init = self._start_init()
        self._pid = _only_child(self._init)
        connect(self.number, self._pid)
        assert self._init.stdin is not None
        self._init.stdin.write(b"connected\n")
        self._init.stdin.flush()

    def cut_power(self) -> None:
        """Kill everything on it at once."""
        assert self._init is not None
        self._init.kill()
        self._init.wait()
        self._init = None

    def cut_cable(self) -> None:
        set_cable(self.number, is_plugged=False)

    def plug_cable(self) -> None:
        set_cable(self.number, is_plugged=True)

    def stop(self) -> None:
        if self._init is not None:
            self.cut_power()
        remove_group(self._plan(()).group)

    @property
    def disk(self) -> Path:
        """What the node has at /var/lib/kubelet, before and after a power cut."""
        disk = self._folder / "kubelet"
        disk.mkdir(exist_ok=True)
        return disk

    @property
    def has_ended(self) -> bool:
        return self._init is not None and self._init.poll() is not None

    def _plan(self, images: tuple[Path, ...]) -> NodePlan:
        return NodePlan(
            number=self.number,
            folder=str(self._folder),
            keys=str(self._plane.keys),
            kube=str(self._plane.programs),
            containerd=str(debian("containerd") / "usr" / "bin"),
            runc=str(debian("runc") / "usr" / "sbin"),
            plugins=str(debian("containernetworking-plugins") / "usr" / "lib" / "cni"),
            images=tuple(map(str, images)),
            grace_seconds=self._grace_seconds,
        )

    def _make_kubeconfig(self) -> None:
        keys = self._plane.keys
        make_client(keys, self.name, f"system:node:{self.name}", "system:nodes")
        login = {
            "client-certificate": f"{keys}/{self.name}.crt",
            "client-key": f"{keys}/{self.name}.key",
        }
        config = self._folder / "kubelet.kubeconfig"
        write_kubeconfig(config, self._plane.url, keys / "ca.crt", login)

    def _start_init(self) -> subprocess.Popen[bytes]:
        apart = ("--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child=SIGKILL")
        init = (sys.executable, "-m", "tests.nodes.node_init", f"{self._folder}/plan.json")
        with (self._folder / "init.log").open("ab") as log:
            return subprocess.Popen(
                ["unshare", *apart, "--propagation=private", "--mount-proc", *init],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=_ROOT,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - it only asks the kernel for a signal
            )


def _only_child(parent: subprocess.Popen[bytes]) -> int:
    """`unshare` forks once: its child is the first process of the node."""
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    deadline = time.monotonic() + _FORK_SECONDS
    while time.monotonic() < deadline and parent.poll() is None:
        if found := children.read_text().split():
            return int(found[0])
        time.sleep(0.02)
    raise TimeoutError("the namespaces of a node could not be made")
