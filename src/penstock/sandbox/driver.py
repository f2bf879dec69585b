"""The seam between the pool and what holds containers: bubblewrap, or a plain child process."""

from typing import Final, Protocol

import msgspec

from penstock.sandbox.box import Box, BoxBounds, BoxLost
from penstock.sandbox.control_groups import BoxLimits
from penstock.sandbox.kernel_pipes import Complaints

# How long a kernel may take to start.
START_SECONDS: Final = 30.0


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


async def wait_ready(started: StartedBox, complaints: Complaints) -> None:
    """Wait for a new container's kernel; end the container if that does not come."""
    try:
        await started.box.wait_ready(START_SECONDS)
    except BoxLost as lost:
        is_gone = await started.end()
        raise BoxLost(str(lost), complaints.read(), is_gone=is_gone) from None
    except BaseException:
        await started.end()
        raise


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
