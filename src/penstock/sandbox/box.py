"""A started container: sends code and files to its kernel, and bounds what comes back.

One request at a time. A kernel that breaks a bound, the protocol or its time raises BoxLost; its
container is then of no more use, and the caller ends it.
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
    Content,
    Done,
    Failed,
    FileEntry,
    Files,
    KernelEvent,
    Output,
    Picture,
    Ready,
    Shown,
    read_event,
)

_PUT_BYTES: Final = 512 * 1024
_PATH_CHARACTERS_MAX: Final = 255
_FILES_SECONDS: Final = 30.0
_GRACE_SECONDS: Final = 2.0
_LENGTH: Final = struct.Struct(">I")


class BoxLost(Exception):
    """The container's kernel has ended, or has to be ended; the text says why."""


class BoxBounds(msgspec.Struct, frozen=True):
    """How much one call may report."""

    output_bytes_max: int = 4 * 2**20
    picture_bytes_max: int = 4 * 2**20
    pictures_max: int = 8


def path_inside(path: str) -> str:
    """Return a file's path below /mnt/data; raise ValueError if it is not one."""
    parts = PurePosixPath(path).parts
    is_good = path and not path.startswith("/") and ".." not in parts and path.isprintable()
    if not is_good or len(path) > _PATH_CHARACTERS_MAX:
        raise ValueError("A file's path is relative, without `..`, of at most 255 characters.")
    return str(PurePosixPath(path))


class Box:
    """The kernel of one container, by the two pipes of its process."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bounds: BoxBounds
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._bounds = bounds

    async def wait_ready(self, seconds: float) -> None:
        async with self._within(seconds, "its kernel did not start"):
            if not isinstance(await self._receive(), Ready):
                raise BoxLost("its kernel did not start as it should")

    async def execute(self, code: str, seconds: float) -> AsyncGenerator[KernelEvent]:
        """Run code and yield its events; after `seconds` the call is interrupted, then lost."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        is_interrupted = False
        await self._send({"op": "exec", "code": code})
        text_bytes = pictures = picture_bytes = 0
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    event = await self._receive()
            except TimeoutError:
                if is_interrupted:
                    raise BoxLost(f"the call took longer than {seconds:.0f} s") from None
                is_interrupted = True
                deadline = loop.time() + _GRACE_SECONDS
                await self._send({"op": "interrupt"})
                continue
            match event:
                case Done():
                    return
                case Output() | Shown() | Failed():
                    text_bytes += len(event.text)
                case Picture():
                    picture_bytes += len(event.data)
                    if picture_bytes > self._bounds.picture_bytes_max:
                        raise BoxLost("a picture was too large")
                    if not event.more:
                        pictures, picture_bytes = pictures + 1, 0
                case _:
                    raise BoxLost("its kernel reported what nobody had asked for")
            if text_bytes > self._bounds.output_bytes_max or pictures > self._bounds.pictures_max:
                raise BoxLost("the call printed too much")
            yield event

    async def put(self, path: str, data: bytes) -> None:
        """Write a file below /mnt/data."""
        inside = path_inside(path)
        for at in range(0, max(1, len(data)), _PUT_BYTES):
            piece = data[at : at + _PUT_BYTES]
            request = {"op": "put", "path": inside, "data": piece, "append": at > 0}
            await self._ask(request)

    async def get(self, path: str, bytes_max: int) -> bytes:
        """Read a file below /mnt/data, up to `bytes_max` of it."""
        events = await self._ask({"op": "get", "path": path_inside(path), "bytes_max": bytes_max})
        parts = [event.data for event in events if isinstance(event, Content)]
        return b"".join(parts)[:bytes_max]

    async def files(self) -> list[FileEntry]:
        """List the files below /mnt/data; entries whose paths are not inside are left out."""
        events = await self._ask({"op": "list"})
        found = [entry for event in events if isinstance(event, Files) for entry in event.files]
        return [entry for entry in found if _is_inside(entry)]

    async def _ask(self, request: dict[str, object]) -> list[KernelEvent]:
        """Send a request about files; return its events. A refusal raises OSError."""
        async with self._within(_FILES_SECONDS, "its kernel does not answer"):
            await self._send(request)
            events: list[KernelEvent] = []
            size = 0
            while not isinstance(event := await self._receive(), Done):
                size += EVENT_BYTES_MAX if isinstance(event, Files) else 0
                size += len(event.data) if isinstance(event, Content) else 0
                if size > request.get("bytes_max", 2 * EVENT_BYTES_MAX):  # type: ignore[operator]
                    raise BoxLost("its kernel reported more than was asked for")
                events.append(event)
        failed = next((event for event in events if isinstance(event, Failed)), None)
        if failed is not None:
            raise OSError(failed.text.strip())
        return events

    async def _send(self, request: dict[str, object]) -> None:
        body = msgspec.json.encode(request)
        self._writer.write(_LENGTH.pack(len(body)) + body)
        try:
            await self._writer.drain()
        except OSError:
            raise BoxLost("its kernel has ended") from None

    async def _receive(self) -> KernelEvent:
        try:
            [length] = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            if length > EVENT_BYTES_MAX:
                raise BoxLost("its kernel reported too much at once")
            return read_event(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):
            raise BoxLost("its kernel has ended") from None
        except ValueError as bad:
            raise BoxLost(f"its kernel reported {bad}") from None

    @contextlib.asynccontextmanager
    async def _within(self, seconds: float, what: str) -> AsyncGenerator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            raise BoxLost(what) from None


def _is_inside(entry: FileEntry) -> bool:
    try:
        return path_inside(entry.path) == entry.path and entry.bytes >= 0
    except ValueError:
        return False
