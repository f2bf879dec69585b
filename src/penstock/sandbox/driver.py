"""The seam between the pool and what holds containers: bubblewrap, or a plain child process."""

from typing import Protocol

import msgspec

from penstock.sandbox.box import Box, BoxBounds
from penstock.sandbox.control_groups import BoxLimits


class BoxSpec(msgspec.Struct, frozen=True):
    """What a container is made of."""

    name: str
    uid: int
    limits: BoxLimits
    data_bytes: int
    bounds: BoxBounds = BoxBounds()


class StartedBox(Protocol):
    """A container that runs, and how it is ended."""

    @property
    def box(self) -> Box: ...

    async def end(self) -> bool:
        """Kill everything in it; return whether nothing is left, so that its user is free."""


class BoxDriver(Protocol):
    """Starts containers."""

    name: str
    isolation: str

    def problem(self) -> str:
        """Return why containers cannot be held here, empty if they can. May block."""

    def clear(self) -> None:
        """End what an earlier process of ours has left. May block."""

    async def start(self, spec: BoxSpec) -> StartedBox:
        """Start a container and wait for its kernel; raise BoxLost if that does not come."""
