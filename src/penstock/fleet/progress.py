"""Progress reports for the user while a replica starts, because loading takes minutes."""

from collections.abc import Callable, Mapping

import msgspec

from penstock.clock import Clock
from penstock.fleet.known import Known, WatchedReplica
from penstock.fleet.memory import KeeperMemory
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaState


class ReplicaProgress(msgspec.Struct, frozen=True):
    """One replica's progress, sent every heartbeat while it starts, and at each state change."""

    replica: ReplicaId
    model: ModelId
    state: ReplicaState
    # Time since the replica entered this state.
    elapsed_seconds: float
    url: str = ""
    # The engine's last log line while it starts; empty afterwards, as it might quote a caller.
    line: str = ""
    # Why the replica drains, has ended, or is not ready yet.
    detail: str = ""
    # Whether it waits for its weights; it has no id yet.
    is_fetching: bool = False


OnProgress = Callable[[ReplicaProgress], None]


class Progress:
    """Compares what a keeper knows after a step with what it knew before."""

    def __init__(self, known: Known, memory: KeeperMemory, clock: Clock) -> None:
        self._known = known
        self._memory = memory
        self._clock = clock

    async def since(
        self,
        before: Mapping[ReplicaId, ReplicaState],
        entries: Mapping[ReplicaId, WatchedReplica],
    ) -> list[ReplicaProgress]:
        """Return reports of fetches, of starting replicas, and of changes of state."""
        starting = ReplicaState.STARTING
        news = [
            ReplicaProgress(ReplicaId(""), model, starting, 0.0, detail=reason, is_fetching=True)
            for model, reason in self._known.fetching.items()
        ]
        for id_, entry in entries.items():
            state = entry.replica.state
            if state is starting or before.get(id_) is not state:
                news.append(await self._of(entry))
        return news

    async def _of(self, entry: WatchedReplica) -> ReplicaProgress:
        replica = entry.replica
        line = ""
        if replica.state is ReplicaState.STARTING:
            line = await self._memory.last_line(replica.id)
        elapsed = self._clock.monotonic() - entry.since
        return ReplicaProgress(
            replica.id, replica.model, replica.state, elapsed, replica.url, line, entry.detail
        )
