"""What `plan` is told: what is wanted, what is seen, how patient to be. Records, no behaviour."""

from enum import StrEnum

import msgspec

from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId, ReplicaState


class Want(msgspec.Struct, frozen=True):
    """Replicas of one kind. `name` ties a replica to the want that it was started for."""

    name: str
    provider: str
    model: ModelId
    count: int
    url: str = ""
    served_name: str = ""
    dialect: str = "vllm"
    slots_live: int = 256
    has_priority: bool = False
    # None for attached servers: they may come up whenever they like.
    start_seconds_max: float | None = None


class IntentLimits(msgspec.Struct, frozen=True):
    """The part of the settings that decisions need."""

    restart_first_seconds: float = 1.0
    restart_factor: float = 2.0
    restart_seconds_max: float = 60.0
    restart_reset_seconds: float = 120.0
    unhealthy_seconds: float = 60.0
    drain_seconds: float = 600.0
    drain_settle_seconds: float = 3.0


class Intent(msgspec.Struct, frozen=True):
    """All that this keeper wants now. `drains` are replicas that someone asked to be drained."""

    wants: tuple[Want, ...] = ()
    limits: IntentLimits = IntentLimits()
    drains: frozenset[ReplicaId] = frozenset()
    is_stopping: bool = False


class Phase(StrEnum):
    """What a provider sees of a replica's process."""

    ALIVE = "alive"
    # Its supervisor is dead and the engine runs on: nobody would end it, so we do.
    ORPHANED = "orphaned"
    ENDED = "ended"


class Observed(msgspec.Struct, frozen=True):
    """One replica, as far as the keeper knows it at one moment. Times are the clock of `now`."""

    id: ReplicaId
    want: str
    provider: str
    generation: int
    state: ReplicaState
    phase: Phase
    since: float
    is_healthy: bool = False
    # When its health began to fail; None while it is well or has never been asked.
    silent_since: float | None = None
    ready_since: float | None = None
    # Requests inside the engine; None when it does not say.
    running: int | None = None
    # When gateways could first read its present state; None while that is not written.
    written_at: float | None = None
    # Someone else holds a newer generation: a ghost, to be ended and never listed again.
    is_superseded: bool = False
    # It is being ended because it failed, so its end counts for the back-off.
    is_failed: bool = False
    detail: str = ""


class Failures(msgspec.Struct, frozen=True):
    """How often in a row replicas of one want have failed, and when the last one did."""

    count: int
    last_at: float


class FleetObservation(msgspec.Struct, frozen=True):
    """Everything seen in one look. `unknown` are providers that could not be asked."""

    replicas: tuple[Observed, ...] = ()
    unknown: frozenset[str] = frozenset()
    failures: dict[str, Failures] = {}
