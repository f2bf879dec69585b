"""Leaves out replicas that this worker's own connections found dead, until a probe succeeds.

An old heartbeat never ejects: when Postgres comes back after a minute, nothing is ejected.
"""

from penstock.records.replica import ReplicaId


class Ejections:
    """The ejected replicas. `due` lists those to probe; only `restore` brings one back."""

    def __init__(self, *, first_wait_seconds: float, interval_seconds: float) -> None:
        self._first_wait = first_wait_seconds
        # The seconds between two probes of one replica.
        self.interval = interval_seconds
        self._next_probe: dict[ReplicaId, float] = {}
        # Why each ejected replica was, in a few words for operators.
        self.reasons: dict[ReplicaId, str] = {}
        # Grows with every change.
        self.version = 0

    def __len__(self) -> int:
        return len(self._next_probe)

    def __contains__(self, replica: ReplicaId) -> bool:
        return replica in self._next_probe

    def eject(self, replica: ReplicaId, now: float, reason: str = "") -> bool:
        """Eject this replica; return whether it was not ejected before."""
        if replica in self._next_probe:
            return False
        self._next_probe[replica] = now + self._first_wait
        self.reasons[replica] = reason
        self.version += 1
        return True

    def restore(self, replica: ReplicaId) -> None:
        if self._next_probe.pop(replica, None) is not None:
            del self.reasons[replica]
            self.version += 1

    def due(self, now: float) -> list[ReplicaId]:
        """Return the replicas whose probe is due; each is due again one interval later."""
        ready = [replica for replica, at in self._next_probe.items() if at <= now]
        for replica in ready:
            self._next_probe[replica] = now + self.interval
        return ready

    def forget_all_but(self, known: frozenset[ReplicaId]) -> None:
        """Drop the replicas that have left the roster: ids are never reused."""
        for replica in [r for r in self._next_probe if r not in known]:
            self.restore(replica)
