"""What this worker has sent and not yet seen answered, by replica."""

from penstock.records.replica import ReplicaId


class Outstanding:
    """Counts of requests in flight. A replica with none has no entry: gone ones leave no trace."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[ReplicaId, int] = {}

    def at(self, replica: ReplicaId) -> int:
        return self._counts.get(replica, 0)

    def add(self, replica: ReplicaId) -> None:
        self._counts[replica] = self._counts.get(replica, 0) + 1

    def remove(self, replica: ReplicaId) -> None:
        left = self._counts[replica] - 1
        if left:
            self._counts[replica] = left
        else:
            del self._counts[replica]

    def total(self) -> int:
        return sum(self._counts.values())

    def by_replica(self) -> dict[ReplicaId, int]:
        return dict(self._counts)
