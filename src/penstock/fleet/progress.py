"""Progress reports for the user while a replica starts, because loading takes minutes."""

from collections.abc import Callable

import msgspec

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
