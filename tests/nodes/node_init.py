"""The first process of a node, in namespaces of its own: `python -m tests.nodes.node_init PLAN`.

It waits for its cable (a line on standard input), mounts what a host has for itself, starts
containerd and the kubelet, and buries what ends. When it is killed, so is all that runs on the
node: that is a power cut.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import msgspec
from tests.nodes.node_files import KERNEL_SETTINGS, NodePlan, setting_file
from tests.nodes.pod_network import node_address, set_up_inside

_SOCKET = "/run/containerd/containerd.sock"
_CONTAINERD_SECONDS = 30.0


def main(plan_file: str) -> int:
    plan = msgspec.json.decode(Path(plan_file).read_bytes(), type=NodePlan)
    sys.stdin.readline()
    set_up_inside(plan.number)
    subprocess.run(["hostname", plan.name], check=True)
    _mount_own(Path(plan.folder))
    environment = {
        **os.environ,  # noqa: TID251 - programs of the machine want its variables
        "PATH": f"{plan.containerd}:{plan.runc}:{os.defpath}:/usr/sbin:/sbin",
        "HOME": plan.folder,
    }
    containerd = _spawn(
        plan,
        environment,
        f"{plan.containerd}/containerd",
        "--config",
        f"{plan.folder}/containerd.toml",
    )
    _load_images(plan, environment)
    kubelet = _spawn(plan, environment, f"{plan.kube}/kubelet", *_kubelet_arguments(plan))
    while True:
        with suppress(ChildProcessError):
            pid, status = os.wait()
            if pid in (containerd, kubelet):
                print(f"process {pid} of {containerd, kubelet} ended with {status}", flush=True)
                return 1


def _mount_own(folder: Path) -> None:
    _mount("--make-rshared", "/")
    for place in ("/run", "/var/log"):
        _mount("-t", "tmpfs", "tmpfs", place)
    Path("/var/lib/kubelet").mkdir(parents=True, exist_ok=True)
    _mount("--bind", str(folder / "kubelet"), "/var/lib/kubelet")
    _mount("--make-rshared", "/var/lib/kubelet")
    for name in KERNEL_SETTINGS:
        _mount("--bind", str(setting_file(folder, name)), f"/proc/sys/{name}")


def _load_images(plan: NodePlan, environment: dict[str, str]) -> None:
    ctr = [f"{plan.containerd}/ctr", "--address", _SOCKET, "-n", "k8s.io"]
    deadline = time.monotonic() + _CONTAINERD_SECONDS
    while subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode:
        if time.monotonic() > deadline:
            raise TimeoutError("containerd does not answer")
        time.sleep(0.1)
    for image in plan.images:
        command = [*ctr, "images", "import", "--no-unpack", image]
        subprocess.run(command, check=True, env=environment)


def _kubelet_arguments(plan: NodePlan) -> list[str]:
    return [
        f"--config={plan.folder}/kubelet.json",
        f"--kubeconfig={plan.folder}/kubelet.kubeconfig",
        "--root-dir=/var/lib/kubelet",
        f"--cert-dir={plan.folder}/certificates",
        f"--hostname-override={plan.name}",
        f"--node-ip={node_address(plan.number)}",
        "--container-runtime=remote",
        f"--container-runtime-endpoint=unix://{_SOCKET}",
        f"--node-labels=penstock.test/node={plan.name}",
    ]


def _spawn(plan: NodePlan, environment: dict[str, str], program: str, *arguments: str) -> int:
    with (Path(plan.folder) / f"{Path(program).name}.log").open("ab") as log:
        child = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    return child.pid


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
