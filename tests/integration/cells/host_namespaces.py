"""Hosts that are network namespaces of this machine, joined by a bridge that leads nowhere else."""

import contextlib
import subprocess
from collections.abc import Iterator, Mapping

HEAD = "head"
_BRIDGE = "cell"


@contextlib.contextmanager
def namespaces(prefix: str, addresses: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """Make a namespace for each host with its address in a /24; the head's has the bridge.

    Return their names by host.
    """
    names = {host: f"{prefix}-{host}" for host in addresses}
    made = []
    try:
        for host, name in names.items():
            _ip("netns", "add", name)
            made.append(name)
            _ip("-n", name, "link", "set", "lo", "up")
            if host == HEAD:
                _ip("-n", name, "link", "add", _BRIDGE, "type", "bridge")
                _address(name, _BRIDGE, addresses[host])
        for number, (host, name) in enumerate(names.items()):
            if host != HEAD:
                _join(name, names[HEAD], number)
                _address(name, "eth0", addresses[host])
        yield names
    finally:
        for name in made:
            _ip("netns", "delete", name)


def _join(name: str, head: str, number: int) -> None:
    """A cable from a host to the head's bridge. Both ends are born where they belong."""
    port = f"port{number}"
    _ip("-n", head, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
    _ip("-n", head, "link", "set", port, "master", _BRIDGE)
    _ip("-n", head, "link", "set", port, "up")


def _address(name: str, device: str, address: str) -> None:
    _ip("-n", name, "address", "add", f"{address}/24", "dev", device)
    _ip("-n", name, "link", "set", device, "up")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
