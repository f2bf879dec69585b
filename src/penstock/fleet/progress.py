"""What a person sees while a replica comes up: loading takes minutes, and silence looks broken."""

from collections.abc import Callable

import msgspec

from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaState


class ReplicaProgress(msgspec.Struct, frozen=True):
    """One replica now. Sent every heartbeat while it starts, and at each change of state."""

    replica: ReplicaId
    model: ModelId
    state: ReplicaState
    # Since it entered this state.
    elapsed_seconds: float
    url: str = ""
    # The engine's last log line while it starts; empty afterwards, for it might quote a caller.
    line: str = ""
    # Why it drains, ended, or is not ready yet.
    detail: str = ""


OnProgress = Callable[[ReplicaProgress], None]
