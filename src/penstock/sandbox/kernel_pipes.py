"""Opens the two pipes between the host and a container's kernel, and closes them.

The host owns both transports itself. A subprocess's own streams end only when somebody reads them
to their end, and a container that ends may have a reader that waits, or none at all.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Final, Self

import msgspec

# The host holds about twice as much for a container that writes while nobody reads.
_READ_AHEAD_BYTES: Final = 64 * 1024
_COMPLAINT_BYTES: Final = 2000


class HostEnd(msgspec.Struct, frozen=True):
    """The host's ends: events come from `reader`, requests go to `requests`."""

    reader: asyncio.StreamReader
    requests: asyncio.WriteTransport
    _events: asyncio.ReadTransport

    async def close(self) -> None:
        """Close both at once, without what waits to be written; a waiting reader sees the end."""
        self._events.close()
        if not self.requests.is_closing():
            self.requests.abort()
        # A transport closes its descriptor in the next turn of the loop.
        await asyncio.sleep(0)


class KernelEnd(msgspec.Struct, frozen=True):
    """The descriptors that a container gets as its standard input and output."""

    requests: int
    events: int


class Complaints:
    """What a container writes to its standard error until its kernel is ready, to be logged.

    Code in the container could write there later: then nobody reads, and writing fails.
    """

    def __init__(self) -> None:
        self._reading, self.writing = os.pipe()
        os.set_blocking(self._reading, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close_writing()
        os.close(self._reading)

    def close_writing(self) -> None:
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    def read(self) -> str:
        """Return the first of what was written."""
        with contextlib.suppress(BlockingIOError):
            return os.read(self._reading, _COMPLAINT_BYTES).decode(errors="replace").strip()
        return ""


@contextlib.asynccontextmanager
async def open_kernel_pipes() -> AsyncIterator[tuple[HostEnd, KernelEnd]]:
    """Open both pipes. After the block the kernel's ends are closed here; an error closes all."""
    requests, requests_in = os.pipe()
    events_out, events = os.pipe()
    try:
        host = await _connect(events_out, requests_in)
        try:
            yield host, KernelEnd(requests, events)
        except BaseException:
            await host.close()
            raise
    finally:
        os.close(requests)
        os.close(events)


async def _connect(reading: int, writing: int) -> HostEnd:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(_READ_AHEAD_BYTES, loop)
    events, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader, loop=loop), os.fdopen(reading, "rb", 0)
    )
    requests, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(writing, "wb", 0))
    return HostEnd(reader, requests, events)
