"""The files by which a node's containerd, runc, network plugins and kubelet are configured."""

import json
from pathlib import Path

import msgspec
from tests.nodes.pod_network import node_address, pod_addresses


class NodePlan(msgspec.Struct, frozen=True):
    """All that a node's first process has to know; it reads this as a file."""

    number: int
    folder: str
    # Of the control plane, with the authority's certificate.
    keys: str
    # Folders of programs.
    kube: str
    containerd: str
    runc: str
    plugins: str
    # Archives that are loaded before the kubelet starts.
    images: tuple[str, ...]
    # Seconds without a heartbeat after which the cluster gives the node up.
    grace_seconds: int

    @property
    def name(self) -> str:
        return f"node-{self.number}"

    @property
    def group(self) -> str:
        return f"penstock-test/{self.name}"


PAUSE_IMAGE = "localhost/pause:1"
# What the kubelet wants these to be: it finds them so, and leaves the machine's own alone.
KERNEL_SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
_UNUSED = ("snapshotter.v1.btrfs", "snapshotter.v1.zfs", "snapshotter.v1.devmapper")
_CRI = "io.containerd.grpc.v1.cri"


def write_files(plan: NodePlan) -> None:
    folder = Path(plan.folder)
    for name in ("containerd", "kubelet", "plugins", "settings", "certificates"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "plan.json").write_bytes(msgspec.json.encode(plan))
    (folder / "containerd.toml").write_text(_containerd(plan))
    (folder / "plugins" / "10-bridge.conflist").write_text(json.dumps(_network(plan)))
    (folder / "kubelet.json").write_text(json.dumps(_kubelet(plan)))
    for name, value in KERNEL_SETTINGS.items():
        setting_file(folder, name).write_text(f"{value}\n")


def setting_file(folder: Path, name: str) -> Path:
    return folder / "settings" / name.replace("/", ".")


def _containerd(plan: NodePlan) -> str:
    unused = json.dumps([f"io.containerd.{each}" for each in _UNUSED])
    return f"""
version = 2
root = "{plan.folder}/containerd"
state = "/run/containerd"
disabled_plugins = {unused}
[grpc]
address = "/run/containerd/containerd.sock"
[plugins."{_CRI}"]
sandbox_image = "{PAUSE_IMAGE}"
restrict_oom_score_adj = true
disable_hugetlb_controller = true
[plugins."{_CRI}".cni]
bin_dir = "{plan.plugins}"
conf_dir = "{plan.folder}/plugins"
[plugins."{_CRI}".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."{_CRI}".containerd.runtimes.runc.options]
BinaryName = "{plan.runc}/runc"
SystemdCgroup = false
"""


def _network(plan: NodePlan) -> dict[str, object]:
    addresses = {
        "type": "host-local",
        # Addresses in use are forgotten when the node is started again, as its pods are.
        "dataDir": "/run/addresses",
        "ranges": [[{"subnet": pod_addresses(plan.number)}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": False,
        "ipam": addresses,
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def _kubelet(plan: NodePlan) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": node_address(plan.number),
        "port": 10250,
        "readOnlyPort": 0,
        "healthzPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": f"{plan.keys}/ca.crt"},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{plan.group}",
        "enforceNodeAllocatable": ["pods"],
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "maxOpenFiles": 1024,
        "podCIDR": pod_addresses(plan.number),
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
        },
        "nodeLeaseDurationSeconds": plan.grace_seconds,
        "nodeStatusUpdateFrequency": f"{plan.grace_seconds / 4}s",
        "imageGCHighThresholdPercent": 100,
        "serializeImagePulls": False,
        "resolvConf": "",
        "clusterDomain": "cluster.local",
    }
