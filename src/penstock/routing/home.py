"""Gives each session one home replica, the same on every gateway, without messages.

Consistent hashing: each replica has many points on a ring; a session's home owns the next point
after its key. When a replica comes or goes, only sessions next to its points change their home.
"""

from bisect import bisect
from collections.abc import Iterable
from typing import Final

from penstock.records.replica import ReplicaId
from penstock.wire.prompt.chain import DIGEST_MAX, digest

_POINTS: Final = 32


class HomeRing:
    """The hash ring of a model's replicas, rebuilt when they change; a lookup is one bisection."""

    def __init__(self, replicas: Iterable[ReplicaId]) -> None:
        # The number is part of the hashed text: as a seed it gives short names the same points.
        owners = {
            digest(f"{number} {replica}"): replica
            for replica in sorted(replicas)
            for number in range(_POINTS)
        }
        self._points = sorted(owners)
        self._owners = [owners[point] for point in self._points]

    def of(self, session: int) -> ReplicaId | None:
        if not self._owners:
            return None
        return self._owners[bisect(self._points, session & DIGEST_MAX) % len(self._owners)]


def rank(session: int, replica: ReplicaId) -> int:
    """Return a replica's rank for a session (rendezvous hashing): the same on every gateway."""
    return digest(replica, session)
