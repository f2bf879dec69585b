"""A replica: one engine instance, on 1 to 16 GPUs, and its place in the roster."""

from enum import StrEnum
from typing import NewType

import msgspec

from penstock.records.model import ModelId

ReplicaId = NewType("ReplicaId", str)


class ReplicaState(StrEnum):
    """starting → ready → draining → gone. Only a `ready` replica takes new requests."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    GONE = "gone"


class Replica(msgspec.Struct, frozen=True):
    """The data that a gateway needs to send a request to a replica. Ids are never reused."""

    id: ReplicaId
    model: ModelId
    url: str
    state: ReplicaState
    served_name: str
    dialect: str = "vllm"
    slots_live: int = 256
    generation: int = 1
    host: str = ""
    # Whether the engine queues by priority. Only the keeper sets this, and only jobs need it.
    has_priority: bool = False
    # Unix time at which the roster's row last changed; 0 for a replica that is not from the roster.
    changed_at: float = 0.0


class ReplicaStart(msgspec.Struct, frozen=True):
    """A start that goes on: how long so far, and how long the model's last start took."""

    elapsed_seconds: float
    # None before this process has seen one.
    last_seconds: float | None = None
