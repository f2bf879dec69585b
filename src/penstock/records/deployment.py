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


class DeploymentSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an operator writes of a deployment."""

    # A model's id or alias in control's catalogue.
    model: str
    replicas: ReplicaRange = ReplicaRange()
    hosts: HostChoice = HostChoice()
    # "hosts" puts replicas on as many hosts as there are; "none" fills one host first.
    spread: Literal["hosts", "none"] = "hosts"
    # Ids of the accounts that these replicas serve; empty: all.
    accounts: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    # Arguments behind those of the recipe, for the engine.
    arguments: Annotated[tuple[str, ...], Meta(max_length=100)] = ()
    # Variables beside those of the recipe.
    environment: dict[str, str] = {}
    rollout: RolloutRules = RolloutRules()
