"""A started container: sends code and files to its kernel, and bounds what comes back.

One request at a time. A kernel that breaks a bound, the protocol or its time raises BoxLost; its
container is then of no more use, and the caller ends it. Requests are written without waiting:
each is answered before the next, so one at most is held for a kernel that does not read.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncGenerator
from pathlib import PurePosixPath
from typing import Final

import msgspec

from penstock.sandbox.kernel_events import (
    EVENT_BYTES_MAX,
    CallEvent,
    Content,
    Done,
    FileListing,
    KernelEvent,
    Picture,
    Ready,
    read_event,
)
from penstock.wire.resources.sandbox import (
    PATH_CHARACTERS_MAX,
    Failed,
    FileEntry,
    Output,
    ShownValue,
)

_PUT_BYTES: Final = 512 * 1024
_FILES_SECONDS: Final = 30.0
_GRACE_SECONDS: Final = 2.0
# Output that a container's threads print while the host asks for files.
_STRAY_BYTES: Final = 2 * EVENT_BYTES_MAX
_REFUSAL_CHARACTERS_MAX: Final = 500
_LENGTH: Final = struct.Struct(">I")


class BoxLost(Exception):
    """The container's kernel has ended, or has to be ended; the text says why.

    Of a container that did not start, `complaints` is what it wrote to its standard error, for the
    log, and `is_gone` says whether nothing of it is left.
    """

    def __init__(self, reason: str, complaints: str = "", *, is_gone: bool = True) -> None:
        super().__init__(reason)
        self.complaints = complaints
        self.is_gone = is_gone


class BoxBounds(msgspec.Struct, frozen=True):
    """How much one call may report; text counts in bytes of its events."""

    output_bytes_max: int = 4 * 2**20
    picture_bytes_max: int = 4 * 2**20
    pictures_max: int = 8
    events_max: int = 20_000


def path_inside(path: str) -> str:
    """Return a file's path below /mnt/data; raise ValueError if it is not one."""
    parts = PurePosixPath(path).parts
    is_good = parts and not path.startswith("/") and ".." not in parts and path.isprintable()
    if not is_good or len(path) > PATH_CHARACTERS_MAX:
        raise ValueError("A file's path is relative, without `..`, of at most 255 characters.")
    return str(PurePosixPath(path))


class Box:
    """The kernel of one container, by the two pipes of its process."""

    def __init__(
        self, reader: asyncio.StreamReader, requests: asyncio.WriteTransport, bounds: BoxBounds
    ) -> None:
        self._reader = reader
        self._requests = requests
        self._bounds = bounds
        self._is_free = True
        # Of the event whose body has not come yet: a wait that ends between both loses neither.
        self._length: int | None = None

    async def wait_ready(self, seconds: float) -> None:
        """Wait for a new kernel's first event."""
        async with _within(seconds, "its kernel did not start"):
            event, _ = await self._receive()
        if not isinstance(event, Ready):
            raise BoxLost("its kernel did not start as it should")

    async def execute(self, code: str, seconds: float) -> AsyncGenerator[CallEvent]:
        """Run code and yield its events; after `seconds` the call is interrupted, then lost."""
        self._take()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        is_interrupted = False
        tally = _Tally(self._bounds)
        self._send({"op": "exec", "code": code})
        while True:
            try:
                event, size = await self._receive_until(deadline)
            except TimeoutError:
                if is_interrupted:
                    raise BoxLost(f"the call took longer than {seconds:.0f} s") from None
                is_interrupted = True
                deadline = loop.time() + _GRACE_SECONDS
                self._send({"op": "interrupt"})
                continue
            if isinstance(event, Done):
                break
            yield tally.count(event, size)
        self._is_free = True

    def interrupt(self) -> None:
        """End the running code, which gets a KeyboardInterrupt; nothing if none runs."""
        # A kernel that does not read must not make the host hold request after request.
        if not self._is_free and not self._requests.get_write_buffer_size():
            self._send({"op": "interrupt"})

    async def put(self, path: str, data: bytes) -> None:
        """Write a file below /mnt/data. What the container refuses raises OSError."""
        inside = path_inside(path)
        for at in range(0, max(1, len(data)), _PUT_BYTES):
            piece = data[at : at + _PUT_BYTES]
            await self._ask({"op": "put", "path": inside, "data": piece, "append": at > 0}, 0)

    async def get(self, path: str, bytes_max: int) -> bytes:
        """Read a file below /mnt/data, up to `bytes_max` of it. A refusal raises OSError."""
        request = {"op": "get", "path": path_inside(path), "bytes_max": bytes_max}
        # Base64 makes four bytes of three, and each event has a few of its own.
        _, content = await self._ask(request, bytes_max * 3 // 2)
        return content[:bytes_max]

    async def files(self) -> list[FileEntry]:
        """List the files below /mnt/data; entries whose paths are not inside are left out."""
        found, _ = await self._ask({"op": "list"}, EVENT_BYTES_MAX)
        return list({entry.path: entry for entry in found if _is_inside(entry)}.values())

    async def _ask(
        self, request: dict[str, object], answer_bytes: int
    ) -> tuple[list[FileEntry], bytes]:
        """Send a request about files; return the files and the content that its events had."""
        self._take()
        left = answer_bytes + _STRAY_BYTES
        files: list[FileEntry] = []
        content = bytearray()
        refusal = ""
        async with _within(_FILES_SECONDS, "its kernel does not answer"):
            self._send(request)
            while True:
                event, size = await self._receive()
                left -= size
                if left < 0:
                    raise BoxLost("its kernel reported more than was asked for")
                match event:
                    case Done():
                        break
                    case FileListing():
                        files = event.files
                    case Content():
                        content += event.data
                    case Failed():
                        refusal = event.text.strip()[:_REFUSAL_CHARACTERS_MAX] or "refused"
        self._is_free = True
        if refusal:
            raise OSError(refusal)
        return files, bytes(content)

    def _take(self) -> None:
        """Begin a request. One that was cut short has left events for which nobody waits."""
        if not self._is_free:
            raise BoxLost("an earlier request to its kernel has not ended")
        self._is_free = False

    def _send(self, request: dict[str, object]) -> None:
        body = msgspec.json.encode(request)
        self._requests.write(_LENGTH.pack(len(body)) + body)

    async def _receive_until(self, deadline: float) -> tuple[KernelEvent, int]:
        # Events that are here already are read without a turn of the loop, which alone ends a wait.
        if asyncio.get_running_loop().time() >= deadline:
            raise TimeoutError
        async with asyncio.timeout_at(deadline):
            return await self._receive()

    async def _receive(self) -> tuple[KernelEvent, int]:
        """Return the next event and its size in bytes."""
        try:
            if self._length is None:
                [self._length] = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if self._length > EVENT_BYTES_MAX:
                raise BoxLost("its kernel reported too much at once")
            body = await self._reader.readexactly(self._length)
        except (asyncio.IncompleteReadError, ConnectionError):
            raise BoxLost("its kernel has ended") from None
        self._length = None
        try:
            return read_event(body), _LENGTH.size + len(body)
        except ValueError as bad:
            raise BoxLost(f"its kernel reported {bad}") from None


class _Tally:
    """Adds up what one call has reported."""

    def __init__(self, bounds: BoxBounds) -> None:
        self._bounds = bounds
        self._events = self._text_bytes = self._pictures = self._picture_bytes = 0

    def count(self, event: KernelEvent, size: int) -> CallEvent:
        """Return the event; raise BoxLost if it is one too many, or none of a call."""
        self._events += 1
        match event:
            case Output() | ShownValue() | Failed():
                self._text_bytes += size
            case Picture():
                self._picture_bytes += len(event.data)
                if self._picture_bytes > self._bounds.picture_bytes_max:
                    raise BoxLost("a picture was too large")
                if not event.more:
                    self._pictures, self._picture_bytes = self._pictures + 1, 0
            case _:
                raise BoxLost("its kernel reported what nobody had asked for")
        is_too_much = (
            self._text_bytes > self._bounds.output_bytes_max
            or self._pictures > self._bounds.pictures_max
            or self._events > self._bounds.events_max
        )
        if is_too_much:
            raise BoxLost("the call printed too much")
        return event


@contextlib.asynccontextmanager
async def _within(seconds: float, what: str) -> AsyncGenerator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise BoxLost(what) from None


def _is_inside(entry: FileEntry) -> bool:
    try:
        return path_inside(entry.path) == entry.path
    except ValueError:
        return False
