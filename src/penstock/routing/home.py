"""The replica that all gateways agree on for a session, without a word between them.

Each replica stands at many points of a ring; a session's home is the next point after its key. When
a replica comes or goes, only the sessions next to its points change their home.
"""

from bisect import bisect
from collections.abc import Iterable
from typing import Final

from penstock.records.replica import ReplicaId
from penstock.wire.prompt.chain import DIGEST_MAX, digest

_POINTS: Final = 32


class HomeRing:
    """Rebuilt when the replicas of a model change; a look costs one bisection."""

    def __init__(self, replicas: Iterable[ReplicaId]) -> None:
        # The number is in what is hashed: as a seed it would give short names the same points.
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
    """A replica's place for a session (rendezvous): the same on every gateway."""
    return digest(replica, session)
