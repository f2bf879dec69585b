"""Where replicas come from: a seam. One file per kind of owner; a new kind is a new file."""

from typing import Protocol

import msgspec

from penstock.fleet.intent import Phase, Want
from penstock.records.model import ModelId
from penstock.records.replica import ReplicaId


class SeenProcess(msgspec.Struct, frozen=True):
    """One replica, as its provider sees it. It says nothing of health."""

    id: ReplicaId
    want: str
    model: ModelId
    generation: int
    url: str
    phase: Phase
    # Why it ended, for people; empty while it lives.
    detail: str = ""
    # Whether what answers at `url` is this replica; asking another's server would prove nothing.
    is_reachable: bool = True


class Provider(Protocol):
    """Owns replicas. All three are safe to repeat."""

    async def observe(self) -> tuple[SeenProcess, ...]:
        """Every replica of this keeper. Raising means "unknown", which is not "none"."""
        ...

    async def start(self, replica: ReplicaId, want: Want) -> None:
        """Begin to make this replica. It is observed from now on, alive or ended."""
        ...

    async def stop(self, replica: ReplicaId) -> None:
        """Begin to end this replica. It is observed as ended, or not at all, when it has."""
        ...


__all__ = ["Provider", "SeenProcess"]
