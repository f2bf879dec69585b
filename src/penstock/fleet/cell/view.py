"""What control knows of deployments, hosts and placed replicas at one moment. Records only."""

from enum import StrEnum

import msgspec

from penstock.fleet.cell.autoscale import DeploymentLoad
from penstock.fleet.cell.rollout import Comparison, RolloutStage
from penstock.records.deployment import DeploymentSpec
from penstock.records.host import Gpu


class ReplicaPhase(StrEnum):
    """What has become of an assignment's replica."""

    # Its keeper has not started it, or it has ended and was not started again yet.
    NONE = "none"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


class DeploymentView(msgspec.Struct, frozen=True):
    """A deployment with its newest revision."""

    name: str
    revision: int
    launch: int
    stable: int | None
    target: int
    stage: RolloutStage
    stage_seconds: float
    # Why it stands so, and why replicas have no place; for people.
    reason: str
    waits: str
    is_paused: bool
    is_removed: bool
    spec: DeploymentSpec
    model: str
    # GPUs of a replica on each of its hosts, by launch.
    gpus: dict[int, int]
    start_seconds_max: float
    # How long so many replicas are wanted; how long it had no work; how long its last start took.
    target_seconds: float = 0.0
    idle_seconds: float = 0.0
    start_seconds: float | None = None
    # Live requests that one replica runs at once.
    slots: int = 256
    # On how many hosts a replica runs, by launch; 1 if left out.
    nodes: dict[int, int] = {}


class HostView(msgspec.Struct, frozen=True):
    """A host whose keeper obeys deployments."""

    keeper: str
    name: str
    labels: dict[str, str]
    gpus: tuple[Gpu, ...]
    # The ids of GPUs that replicas hold.
    held: frozenset[str]
    # Models for which its keeper finds no room.
    waiting: frozenset[str]
    is_cordoned: bool
    is_draining: bool
    silent_seconds: float
    # Where other hosts reach its engines.
    address: str = ""
    # The pool of a cluster that it is instead; "" if it is a machine.
    pool: str = ""


class PartView(msgspec.Struct, frozen=True):
    """One of a replica's parts on one host."""

    keeper: str
    gpus: int
    phase: ReplicaPhase


class AssignmentView(msgspec.Struct, frozen=True):
    """One placed replica."""

    id: str
    deployment: str
    launch: int
    keeper: str
    gpus: int
    # Why it is to end; "" while it is wanted.
    ending: str
    phase: ReplicaPhase
    # Since it was placed, or since its host had last to fetch weights for it.
    age_seconds: float
    # How long it has been ending.
    ending_seconds: float = 0.0
    # Requests at its engine, as that reported last.
    in_flight: int = 0
    # Its parts on other hosts than its own.
    others: tuple[PartView, ...] = ()

    @property
    def parts(self) -> tuple[PartView, ...]:
        return (PartView(self.keeper, self.gpus, self.phase), *self.others)


class CellView(msgspec.Struct, frozen=True):
    """All of it."""

    deployments: tuple[DeploymentView, ...]
    hosts: tuple[HostView, ...]
    assignments: tuple[AssignmentView, ...]
    # The last comparison of each deployment that has canaries.
    comparisons: dict[str, Comparison] = {}
    # The loads of deployments whose count of replicas follows them.
    loads: dict[str, DeploymentLoad] = {}


class CellLimits(msgspec.Struct, frozen=True):
    """The settings that decisions need."""

    # A host that was silent for this long is lost, with all that runs there.
    lost_seconds: float = 660.0
    # Nothing is placed on a host that was silent for this long.
    silent_seconds: float = 20.0
    # How long a keeper may take to read that a replica is to end.
    settle_seconds: float = 10.0
    gpu_foreign_mb: int = 1024
