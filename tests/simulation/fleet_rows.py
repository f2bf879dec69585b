"""What a simulated fleet is made of: hosts, engines, and the rows that Postgres would have."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Set

import msgspec

from penstock.fleet.cell.rollout import RolloutStage
from penstock.fleet.intent import AssignedReplica, Failures, KeeperOrders
from penstock.records.deployment import DeploymentSpec
from penstock.records.host import Gpu
from penstock.records.model import ModelId, Recipe
from penstock.records.replica import ReplicaId, ReplicaPart, ReplicaState


class Engine(msgspec.Struct):
    """One engine and what its keeper knows of it."""

    id: ReplicaId
    want: str
    assignment: str
    model: str
    gpus: tuple[str, ...]
    started_at: float
    state: ReplicaState = ReplicaState.STARTING
    since: float = 0.0
    ready_since: float | None = None
    is_alive: bool = True
    is_superseded: bool = False
    is_failed: bool = False
    detail: str = ""
    # The first part of its replica over several hosts; "" if it is that.
    leader: ReplicaId = ReplicaId("")
    # Whether all parts of its replica have found each other.
    is_joined: bool = False
    # When the roster got its present state; None if it has not.
    written_at: float | None = None


class RosterRow(msgspec.Struct):
    """A replica as Postgres has it."""

    id: ReplicaId
    assignment: str
    keeper: str
    model: str
    state: ReplicaState
    gpus: tuple[str, ...]
    beat_at: float
    leader: ReplicaId = ReplicaId("")


class AssignmentPart(msgspec.Struct):
    """A row of `assignment_parts`."""

    id: str
    rank: int
    keeper: str


class Assignment(msgspec.Struct):
    """A row of `assignments`."""

    id: str
    deployment: str
    launch: int
    keeper: str
    gpus: int
    made_at: float
    others: list[AssignmentPart]
    ending: str = ""
    ending_at: float = 0.0


class Deployment(msgspec.Struct):
    """A row of `deployments`."""

    name: str
    spec: DeploymentSpec
    gpus: int
    # On how many hosts a replica runs.
    nodes: int = 1
    launch: int = 1
    stable: int | None = None
    target: int = 0
    stage: RolloutStage = RolloutStage.ROLLING
    stage_at: float = 0.0
    reason: str = ""
    waits: str = ""


class Host:
    """A machine with GPUs, engines that run on it, and a keeper."""

    def __init__(self, name: str, gpus: int) -> None:
        self.name = name
        self.gpus = tuple(Gpu(index, str(index)) for index in range(gpus))
        self.engines: dict[ReplicaId, Engine] = {}
        self.failures: dict[str, Failures] = {}
        self.orders = KeeperOrders()
        self.waiting: dict[ModelId, str] = {}
        self.reported_at = 0.0
        self.is_frozen = False
        self.has_keeper = True
        self.is_cordoned = False
        self.is_draining = False
        self.asked: dict[ReplicaId, str] = {}

    def held(self) -> Counter[str]:
        """How many engines have each GPU."""
        return Counter(
            gpu for engine in self.engines.values() if engine.is_alive for gpu in engine.gpus
        )


def parts_at(
    host: Host,
    assignments: Iterable[Assignment],
    roster: Collection[RosterRow],
    broken: Set[ReplicaId],
) -> Iterator[AssignedReplica]:
    """The parts of replicas over several hosts that belong there, while the first one lives."""
    for each in assignments:
        firsts = sorted(row.id for row in roster if row.assignment == each.id)
        for part in each.others:
            first = firsts[-1] if firsts else ReplicaId("")
            is_over = first in broken or (each.ending and not first)
            if part.keeper == host.name and not is_over:
                nodes = len(each.others) + 1
                yield AssignedReplica(
                    part.id,
                    ModelId(each.deployment),
                    Recipe(("x",), gpus=each.gpus, start_seconds_max=60),
                    part=ReplicaPart(nodes, part.rank, first, is_early=not first),
                )
