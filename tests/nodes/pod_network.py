"""The network of a cluster: a namespace of its own, a bridge, and a cable to each node.

Nothing in it has a route to another network, so no packet of nodes or pods can leave it. Whatever
uses the cluster runs inside the same namespace: `enter_own_network` starts the program there.
"""

import os
import subprocess
import sys

from tests.integration.kubernetes.cluster_keys import SERVICE_ADDRESS

BRIDGE_ADDRESS = "10.231.0.1"
_BRIDGE = "nodes"
_INSIDE = "PENSTOCK_NODES_NETWORK"
NODES_MAX = 4


def enter_own_network(module: str) -> None:
    """Start this program again in a network namespace of its own, unless it is in one already."""
    if is_own_network():
        make_bridge()
        return
    command = ["unshare", "--net", sys.executable, "-m", module, *sys.argv[1:]]
    os.execvpe("unshare", command, {**os.environ, _INSIDE: "1"})  # noqa: TID251


def is_own_network() -> bool:
    return bool(os.environ.get(_INSIDE))  # noqa: TID251 - set above


def make_bridge() -> None:
    ip("link", "set", "lo", "up")
    ip("link", "add", _BRIDGE, "type", "bridge")
    ip("addr", "add", f"{BRIDGE_ADDRESS}/24", "dev", _BRIDGE)
    # The API server listens on every address: pods find it here without kube-proxy.
    ip("addr", "add", f"{SERVICE_ADDRESS}/32", "dev", _BRIDGE)
    ip("link", "set", _BRIDGE, "up")


def node_address(number: int) -> str:
    return f"10.231.0.{10 + number}"


def pod_addresses(number: int) -> str:
    """The range of the addresses of a node's pods."""
    return f"10.232.{number}.0/24"


def connect(number: int, pid: int) -> None:
    """Lay a cable between the bridge and the namespace of a node's first process."""
    cable = cable_name(number)
    # The end of a node that lost its power may still be there.
    subprocess.run(["ip", "link", "del", cable], capture_output=True, check=False)
    ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    ip("link", "set", cable, "master", _BRIDGE, "up")
    ip("route", "replace", pod_addresses(number), "via", node_address(number))


def set_up_inside(number: int) -> None:
    """Give the node its address and routes. There is no default route."""
    ip("link", "set", "lo", "up")
    ip("addr", "add", f"{node_address(number)}/24", "dev", "eth0")
    ip("link", "set", "eth0", "up")
    ip("route", "add", f"{SERVICE_ADDRESS}/32", "via", BRIDGE_ADDRESS)
    for other in range(1, NODES_MAX + 1):
        if other != number:
            ip("route", "add", pod_addresses(other), "via", node_address(other))


def set_cable(number: int, *, is_plugged: bool) -> None:
    ip("link", "set", cable_name(number), "up" if is_plugged else "down")


def cable_name(number: int) -> str:
    return f"cable-{number}"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
