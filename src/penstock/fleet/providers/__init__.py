"""Interface to the sources of replicas. Each kind of source has its own file."""

from typing import Protocol

import msgspec

from penstock.fleet.intent import Phase, Want
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId


class SeenProcess(msgspec.Struct, frozen=True):
    """One replica as its provider observes it, without its health."""

    id: ReplicaId
    want: str
    model: ModelId
    generation: int
    url: str
    phase: Phase
    # Why the replica ended or cannot start, in words for people; empty while it runs.
    detail: str = ""
    # Whether this replica itself listens at `url`; another server's health would prove nothing.
    is_reachable: bool = True
    # The ids of the GPUs that it was started on.
    gpus: tuple[str, ...] = ()
    # What it wants from its callers; "" = nothing.
    engine_key: str = ""
    # The replica that this is a part of, on another host; "" if it serves itself.
    leader: ReplicaId = ReplicaId("")
    # Where the other parts of a replica over several hosts find this one.
    master_port: int = 0
    # The machine that it runs on, where that is not the keeper's own.
    host: str = ""
    # Whether no machine has been found for it yet.
    is_waiting: bool = False


class Provider(Protocol):
    """Starts, observes and stops replicas. All three methods are idempotent."""

    async def observe(self) -> tuple[SeenProcess, ...]:
        """Return every replica of this keeper. Raising means "unknown", which is not "none"."""
        ...

    async def start(self, replica: ReplicaId, want: Want, gpus: tuple[str, ...] = ()) -> None:
        """Begin to start this replica on the GPUs with these ids.

        `observe` reports it from now on, alive or ended.
        """
        ...

    async def stop(self, replica: ReplicaId) -> None:
        """Begin to end this replica. `observe` then reports it as ended, or not at all."""
        ...


__all__ = ["Provider", "SeenProcess"]
