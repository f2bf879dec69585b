"""A keeper's memory: its replicas, ended ones not yet written to the roster, and failures."""

from typing import TYPE_CHECKING

import msgspec

from penstock.fleet.intent import Failures, KeeperOrders, Observed, Phase
from penstock.fleet.replica_files import Mark
from penstock.fleet.states import check_move
from penstock.records.replica import Replica, ReplicaId, ReplicaState

if TYPE_CHECKING:
    from penstock.records.host import Gpu
    from penstock.records.model import ModelId


class WatchedReplica(msgspec.Struct):
    """One replica. Times are monotonic; `replica` is replaced as a whole, never modified."""

    replica: Replica
    want: str
    provider: str
    since: float
    is_healthy: bool = False
    silent_since: float | None = None
    ready_since: float | None = None
    asked_at: float | None = None
    running: int | None = None
    # The record last written to the roster; None until it is listed under our generation.
    written: Replica | None = None
    written_at: float = 0.0
    is_superseded: bool = False
    is_failed: bool = False
    detail: str = ""
    # The detail that the roster has.
    written_detail: str = ""

    @property
    def is_written(self) -> bool:
        return self.written == self.replica

    @property
    def is_news(self) -> bool:
        """Whether the roster does not have all of it yet; why it waits matters to people only."""
        is_waiting = self.replica.state is ReplicaState.STARTING
        return not self.is_written or (is_waiting and self.detail != self.written_detail)

    def move(self, state: ReplicaState, now: float) -> None:
        """Enter a state; a transition that docs/replicas.md does not show is refused."""
        check_move(self.replica.state, state)
        self.replica = msgspec.structs.replace(self.replica, state=state)
        self.since = now
        if state is ReplicaState.READY:
            self.ready_since = now

    def mark(self, wall: float) -> Mark:
        """Return what a restarted keeper must know of this replica."""
        replica = self.replica
        return Mark(replica.state, replica.generation, wall, replica.served_name, self.detail)

    def observed(self, phase: Phase) -> Observed:
        return Observed(
            id=self.replica.id,
            want=self.want,
            provider=self.provider,
            generation=self.replica.generation,
            state=self.replica.state,
            phase=phase,
            since=self.since,
            is_healthy=self.is_healthy,
            silent_since=self.silent_since,
            ready_since=self.ready_since,
            running=self.running,
            written_at=self.written_at if self.is_written else None,
            is_superseded=self.is_superseded,
            is_failed=self.is_failed,
            gpus=self.replica.gpus,
            leader=self.replica.leader,
            detail=self.detail,
        )


class Known:
    """All replicas. `ended` holds a limited number of gone ones until the roster lists them so."""

    def __init__(self, unwritten_max: int) -> None:
        self._unwritten_max = unwritten_max
        self.replicas: dict[ReplicaId, WatchedReplica] = {}
        self.ended: dict[ReplicaId, WatchedReplica] = {}
        self.failures: dict[str, Failures] = {}
        self.orders = KeeperOrders()
        # Why wanted replicas are not started, by model.
        self.waiting: dict[ModelId, str] = {}
        # How the fetches stand for which replicas wait, by model, and the assignments of those that
        # go on.
        self.fetching: dict[ModelId, str] = {}
        self.fetching_assignments: tuple[str, ...] = ()
        self.gpus: tuple[Gpu, ...] = ()
        # First parts on other hosts of which the part here has ended: they end too.
        self.lost_leaders: set[ReplicaId] = set()
        # Parts of replicas over several hosts whose weights are here.
        self.parts_with_weights: frozenset[str] = frozenset()

    def forget(self, replica: ReplicaId) -> None:
        known = self.replicas.pop(replica)
        self.ended[replica] = known
        while len(self.ended) > self._unwritten_max:
            # Drop the oldest: the reaper finds its row by its old heartbeat.
            del self.ended[next(iter(self.ended))]
