"""A deployment: what an operator wants of one model, and where its replicas are placed."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")]
Share = Annotated[float, Meta(ge=0, le=1)]


class ReplicaRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many replicas, at least and at most."""

    min: Annotated[int, Meta(ge=0, le=200)] = 1
    max: Annotated[int, Meta(ge=0, le=200)] = 1

    def __post_init__(self) -> None:
        if self.min > self.max:
            raise ValueError("min is greater than max")


class HostChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hosts that replicas may run on: those with all these labels, and one of these names."""

    labels: dict[str, str] = {}
    # Empty: any.
    names: tuple[str, ...] = ()


class HaltLines(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much worse than the old revision a canary may be before the rollout halts."""

    # The share of failed requests beyond the old revision's.
    error_ratio: Share = 0.02
    # The median first-token time, as a multiple of the old revision's.
    first_token_ratio: Annotated[float, Meta(ge=1, le=100)] = 1.3


class RolloutRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How replicas of a new revision take the place of the old ones."""

    # How many more replicas than wanted may run meanwhile, where there are GPUs for them.
    surge: Annotated[int, Meta(ge=0, le=50)] = 1
    # How many fewer may serve meanwhile.
    unavailable: Annotated[int, Meta(ge=0, le=50)] = 0
    # How many replicas of the new revision serve first, to be compared; 0 compares nothing.
    canary: Annotated[int, Meta(ge=0, le=50)] = 0
    # How long they are compared.
    canary_minutes: Annotated[float, Meta(gt=0, le=1440)] = 10.0
    halt: HaltLines = HaltLines()


class ScaleRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the count of replicas follows the load, between `replicas.min` and `replicas.max`."""

    # Of 100 requests, 95 are meant to have their first token by then.
    first_token_p95_ms: Annotated[float, Meta(gt=0, le=3_600_000)] = 2000.0
    # A deployment without requests for so long ends its last replica; 0 keeps it.
    idle_to_zero_minutes: Annotated[float, Meta(ge=0, le=100_000)] = 0.0
    # Over how long load is averaged.
    window_seconds: Annotated[float, Meta(ge=5, le=3600)] = 60.0
    # How long a count stands before it shrinks by one.
    cooldown_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 600.0


class DeploymentSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator writes of a deployment."""

    # A model's id or alias in control's catalogue.
    model: str
    replicas: ReplicaRange = ReplicaRange()
    hosts: HostChoice = HostChoice()
    # The pool of a Kubernetes cluster that places them instead; "" for hosts.
    pool: str = ""
    # "hosts" puts replicas on as many hosts as there are; "none" fills one host first.
    spread: Literal["hosts", "none"] = "hosts"
    # Ids of the accounts that these replicas serve; empty: all.
    accounts: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    # Arguments behind those of the recipe, for the engine.
    arguments: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    # Variables beside those of the recipe.
    environment: dict[str, str] = {}
    scale: ScaleRules = ScaleRules()
    rollout: RolloutRules = RolloutRules()

    def __post_init__(self) -> None:
        if self.scale.idle_to_zero_minutes and self.replicas.min:
            raise ValueError("idle_to_zero_minutes needs replicas.min = 0")
        if self.scale.idle_to_zero_minutes and self.accounts:
            raise ValueError("a deployment for some accounts alone cannot go to zero")
        if self.pool and self.hosts != HostChoice():
            raise ValueError("a pool chooses its own nodes: leave out hosts")

    @property
    def first_target(self) -> int:
        """How many replicas a new deployment begins with."""
        return min(self.replicas.max, max(1, self.replicas.min))

    @property
    def is_scaled(self) -> bool:
        """Whether its count of replicas follows the load."""
        return self.replicas.max > max(1, self.replicas.min) or self.scale.idle_to_zero_minutes > 0
