"""Chooses hosts for replicas of deployments. Pure.

Best fit and nothing more: the fullest host that still fits, after spreading replicas of one
deployment over hosts. Nothing that runs is ever moved. Guarantees: no host gets more than it has
room for, a replica over several hosts gets all of them or none, and what is not placed has a
reason.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from penstock.records.deployment import HostChoice
from penstock.records.host import gpus_in_words

_LOOPBACK = ("127.", "localhost", "::1")


class OpenHost(msgspec.Struct, frozen=True):
    """A host on which replicas may be placed now."""

    keeper: str
    name: str
    labels: dict[str, str]
    # GPUs that nobody holds.
    free_gpus: int
    # Replicas that are placed here, by deployment.
    placed: dict[str, int] = {}
    # Where other hosts reach its engines.
    address: str = ""
    # The pool of a cluster that it is instead, which finds room by itself; "" for a machine.
    pool: str = ""


class WantedPlaces(msgspec.Struct, frozen=True):
    """Replicas of one deployment that are to be placed."""

    deployment: str
    launch: int
    count: int
    # On each of a replica's hosts.
    gpus: int
    hosts: HostChoice
    is_spread: bool = True
    # On how many hosts one replica runs.
    nodes: int = 1
    # The pool of a cluster that it goes to; "" for hosts.
    pool: str = ""

    @property
    def places(self) -> int:
        """How many of our hosts one replica takes: a pool knows its nodes itself."""
        return 1 if self.pool else self.nodes


class Placement(msgspec.Struct, frozen=True):
    """One replica, placed on a host or on several: the first one's part serves."""

    deployment: str
    launch: int
    # Its hosts, by their keepers and by their names.
    keepers: tuple[str, ...]
    hosts: tuple[str, ...]
    gpus: int


def place(
    wanted: Iterable[WantedPlaces], hosts: Sequence[OpenHost]
) -> tuple[list[Placement], dict[str, str]]:
    """Return placements in the order of `wanted`, and why replicas of a deployment have none."""
    rooms = {host.keeper: _Room(host) for host in hosts}
    placements: list[Placement] = []
    reasons: dict[str, str] = {}
    # Larger replicas first: smaller ones fit into what is left.
    for each in sorted(wanted, key=lambda each: (-each.nodes, -each.gpus)):
        fitting = [room for room in rooms.values() if _matches(room.host, each.hosts, each.pool)]
        if each.places > 1:
            fitting = _reachable(fitting)
        for _ in range(each.count):
            chosen = _choose(fitting, each)
            if len(chosen) < each.places:
                reasons[each.deployment] = _reason(each, fitting, len(hosts))
                break
            for room in chosen:
                room.take(each)
            keepers = tuple(room.host.keeper for room in chosen)
            names = tuple(room.host.name for room in chosen)
            placements.append(Placement(each.deployment, each.launch, keepers, names, each.gpus))
    return placements, reasons


class _Room:
    """A host's room while replicas are placed."""

    def __init__(self, host: OpenHost) -> None:
        self.host = host
        self.free = host.free_gpus
        self.placed = dict(host.placed)
        self.total = sum(self.placed.values())

    def take(self, wanted: WantedPlaces) -> None:
        self.free -= 0 if wanted.pool else wanted.gpus
        self.placed[wanted.deployment] = self.placed.get(wanted.deployment, 0) + 1
        self.total += 1


def _choose(rooms: Sequence[_Room], wanted: WantedPlaces) -> list[_Room]:
    """Return the hosts for one replica; fewer than it needs if no more have room."""
    fitting = [room for room in rooms if wanted.pool or room.free >= wanted.gpus]

    def worth(room: _Room) -> tuple[int, int, int, str]:
        own = room.placed.get(wanted.deployment, 0) if wanted.is_spread else 0
        # Without GPUs to fill up, the host with the fewest replicas is the least busy.
        busy = room.free if wanted.gpus else room.total
        return own, busy, room.total, room.host.name

    return sorted(fitting, key=worth)[: wanted.places]


def _matches(host: OpenHost, choice: HostChoice, pool: str) -> bool:
    if host.pool != pool:
        return False
    if choice.names and host.name not in choice.names:
        return False
    return _has_labels(host.labels, choice.labels)


def _reachable(rooms: list[_Room]) -> list[_Room]:
    """Leave out hosts whose engines only they themselves reach, unless all are one machine."""
    if len({room.host.address for room in rooms}) == 1:
        return rooms
    return [room for room in rooms if not room.host.address.startswith(_LOOPBACK)]


def _has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


def _reason(wanted: WantedPlaces, fitting: Sequence[_Room], hosts: int) -> str:
    if wanted.pool:
        return f"no keeper of the pool {wanted.pool} is ready"
    if not hosts:
        return "no host is ready for deployments"
    if not fitting:
        return f"none of {hosts} hosts that are ready has the labels or names it asks for"
    best = max(fitting, key=lambda room: room.free)
    if wanted.nodes > 1:
        enough = sum(room.free >= wanted.gpus for room in fitting)
        return (
            f"needs {gpus_in_words(wanted.gpus)} on each of {wanted.nodes} hosts; {enough} of"
            f" {len(fitting)} that reach each other have them"
        )
    return (
        f"needs {gpus_in_words(wanted.gpus)} on one host; most free: {best.free} on"
        f" {best.host.name}"
    )
