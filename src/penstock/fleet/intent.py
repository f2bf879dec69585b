"""The inputs of `plan`: wanted replicas, observed replicas, and time limits. Records only."""

from enum import StrEnum

import msgspec

from penstock.records.host import Gpu
from penstock.records.model import ModelId, Recipe
from penstock.records.replica import ReplicaId, ReplicaPart, ReplicaState


class Want(msgspec.Struct, frozen=True):
    """Wanted replicas of one kind. `name` links a replica to the want it was started for."""

    name: str
    provider: str
    model: ModelId
    count: int
    url: str = ""
    served_name: str = ""
    dialect: str = "vllm"
    slots_live: int = 256
    has_priority: bool = False
    # How many GPUs each of them gets.
    gpus: int = 0
    # None for attached servers, which may become ready at any time.
    start_seconds_max: float | None = None
    # How a launched engine is started.
    recipe: Recipe | None = None
    # What control has assigned to this host; "" for what the settings want.
    assignment: str = ""
    # The accounts that it serves; empty: all.
    accounts: tuple[str, ...] = ()
    part: ReplicaPart = ReplicaPart()


class IntentLimits(msgspec.Struct, frozen=True):
    """The settings that `plan` needs."""

    restart_first_seconds: float = 1.0
    restart_factor: float = 2.0
    restart_seconds_max: float = 60.0
    restart_reset_seconds: float = 120.0
    unhealthy_seconds: float = 60.0
    drain_seconds: float = 600.0
    drain_settle_seconds: float = 3.0
    gpu_foreign_mb: int = 1024


class AssignedReplica(msgspec.Struct, frozen=True):
    """A replica of a deployment that control has placed on this host, or its part of one."""

    id: str
    model: ModelId
    recipe: Recipe
    accounts: tuple[str, ...] = ()
    part: ReplicaPart = ReplicaPart()


class KeeperOrders(msgspec.Struct, frozen=True):
    """What operators and control ask of one keeper."""

    # It starts nothing new.
    is_cordoned: bool = False
    # It ends all that it runs, when requests have finished.
    is_draining: bool = False
    # Replicas that end when their requests have finished.
    drains: frozenset[ReplicaId] = frozenset()
    # Replicas that end at once.
    restarts: frozenset[ReplicaId] = frozenset()
    # Replicas of deployments; None before they were read, which does not mean none.
    assigned: tuple[AssignedReplica, ...] | None = None
    # Replicas of which a part on another host has ended, so that they end at once too.
    broken: frozenset[ReplicaId] = frozenset()


class Intent(msgspec.Struct, frozen=True):
    """All that this keeper wants now."""

    wants: tuple[Want, ...] = ()
    limits: IntentLimits = IntentLimits()
    orders: KeeperOrders = KeeperOrders()
    is_stopping: bool = False
    # Wants whose weights are not on this host yet: nothing more of them is started.
    unfetched: frozenset[str] = frozenset()
    # First parts on other hosts that are about to end, because their part here has ended.
    lost_leaders: frozenset[ReplicaId] = frozenset()

    @property
    def may_start(self) -> bool:
        return not (self.is_stopping or self.orders.is_cordoned or self.orders.is_draining)


class Phase(StrEnum):
    """The state of a replica's process as its provider observes it."""

    ALIVE = "alive"
    # Somebody else ends it: it takes no new requests, and is waited for.
    ENDING = "ending"
    # The supervisor is dead but the engine still runs, so the keeper must end it.
    ORPHANED = "orphaned"
    ENDED = "ended"


class Observed(msgspec.Struct, frozen=True):
    """What the keeper knows of one replica at one moment. Times are on the clock of `now`."""

    id: ReplicaId
    want: str
    provider: str
    generation: int
    state: ReplicaState
    phase: Phase
    since: float
    is_healthy: bool = False
    # When its health checks began to fail; None while it is healthy or was never checked.
    silent_since: float | None = None
    ready_since: float | None = None
    # Requests in the engine; None if the engine does not report it.
    running: int | None = None
    # When its current state was written to the roster; None while it is not written.
    written_at: float | None = None
    # The roster has a newer generation or has given it up: end this one, never list it again.
    is_superseded: bool = False
    # The replica is being ended because it failed, so its end counts for the back-off.
    is_failed: bool = False
    # The ids of the GPUs that it holds until it has ended.
    gpus: tuple[str, ...] = ()
    # The first part of the replica that this is a part of; "" if it is that itself.
    leader: ReplicaId = ReplicaId("")
    detail: str = ""


class Failures(msgspec.Struct, frozen=True):
    """The number of consecutive failures of one want's replicas, and the time of the last."""

    count: int
    last_at: float


class FleetObservation(msgspec.Struct, frozen=True):
    """The result of one observation. `unknown` are providers that could not be queried."""

    replicas: tuple[Observed, ...] = ()
    unknown: frozenset[str] = frozenset()
    failures: dict[str, Failures] = {}
    # The GPUs of this host.
    gpus: tuple[Gpu, ...] = ()
