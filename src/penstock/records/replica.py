"""A replica: one engine instance, on 1 to 16 GPUs, and its place in the roster."""

from collections.abc import Mapping
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


class ReplicaPart(msgspec.Struct, frozen=True):
    """Which part of a replica over several hosts an engine is; most replicas have one part."""

    nodes: int = 1
    # 0 for the first part, which serves; the others compute for it.
    rank: int = 0
    # The first part, if this is another one.
    leader: ReplicaId = ReplicaId("")
    # Where the first part waits for the others.
    master_address: str = ""
    master_port: int = 0
    # Whether it cannot be started yet: the first part waits for the weights of the others, and
    # these wait for the first.
    is_early: bool = False


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
    # The ids of the GPUs that it holds. Only its keeper sets this.
    gpus: tuple[str, ...] = ()
    # What the engine wants from its callers; "" = nothing, or what `engine.api_keys` has.
    engine_key: str = ""
    # The deployment's assignment that it was started for; "" if it is of its host's settings.
    assignment: str = ""
    # The accounts that it serves; empty: all.
    accounts: tuple[str, ...] = ()
    # The replica that this is a part of, on another host; "" if it serves itself.
    leader: ReplicaId = ReplicaId("")
    # Where the parts of a replica over several hosts find the first one; 0 if it has one host.
    master_port: int = 0
    # Unix time at which the roster's row last changed; 0 for a replica that is not from the roster.
    changed_at: float = 0.0


class LoadFigures(msgspec.Struct, frozen=True, omit_defaults=True):
    """What an engine reports of itself."""

    running: int = 0
    waiting: int = 0
    # The share of its KV cache that is in use.
    kv_use: float = 0.0
    # How many tokens its KV cache holds; 0 if it does not say.
    kv_tokens: int = 0
    # Uncached prompt tokens that it reads in a second; 0 before it has read many.
    prefill_rate: float = 0.0
    # Those that it was given in a second, over the last minute.
    uncached_rate: float = 0.0
    # For how long it has had no request.
    idle_seconds: float = 0.0


class ReplicaStart(msgspec.Struct, frozen=True):
    """A start that goes on: how long so far, and how long the model's last start took."""

    elapsed_seconds: float
    # None before this process has seen one.
    last_seconds: float | None = None


def key_for(replica: Replica, api_keys: Mapping[str, str]) -> str:
    """Return what a replica wants: its own key, or that of its URL, or that of "*", or ""."""
    return replica.engine_key or api_keys.get(replica.url) or api_keys.get("*", "")
