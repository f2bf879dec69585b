"""One hot request and its answer on a client's connection, written straight to the transport.

It takes the place of uvicorn's RequestResponseCycle for the hot paths: ASGI's send and receive
cost more per chunk than everything else we do with it (docs/decisions/0002-http-server.md).
uvicorn still owns the connection: parsing, pipelining, keep-alive, graceful shutdown.
"""

import asyncio
import enum
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from penstock.ingress.http.body_budget import HeldBody
from penstock.records.decimals import whole
from penstock.wire.http.chunks import LAST_CHUNK, chunk

if TYPE_CHECKING:
    from penstock.intake.caller_headers import CallerHeaders

Headers = list[tuple[bytes, bytes]]

STATUS_LINES: Final = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_OK_LINE: Final = STATUS_LINES[200]
# Parts of a body that are shorter are gathered into parts of `_PART_BYTES`: two million parts of
# two bytes would take 60 times their own size.
_SHORT_BYTES: Final = 4096
_PART_BYTES: Final = 64 * 1024
JSON: Final = b"content-type: application/json\r\n"
EVENT_STREAM: Final = (
    b"content-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\nx-accel-buffering: no\r\n"
)


class ClientConnection(Protocol):
    """What an exchange needs of the connection that it is on."""

    transport: asyncio.Transport

    def date_header(self) -> bytes: ...

    def on_response_complete(self) -> None: ...


class _NobodyWaits:
    """uvicorn wakes the ASGI application through an event; here nobody waits on one."""

    def set(self) -> None: ...


class ExchangeState(enum.Enum):
    """How far one request and its answer have come. An answer may be complete at once."""

    # The request's body is still coming.
    READING = "reading"
    # The request is there, and nothing is answered.
    WHOLE = "whole"
    # The head of a stream is out, and its end is not.
    STARTED = "started"
    # The answer is out.
    COMPLETE = "complete"
    # The client left before that.
    GONE = "gone"


# Bound once: compiled code looks a member up in its class each time, for every chunk.
_READING: Final = ExchangeState.READING
_WHOLE: Final = ExchangeState.WHOLE
_STARTED: Final = ExchangeState.STARTED
_COMPLETE: Final = ExchangeState.COMPLETE
_GONE: Final = ExchangeState.GONE


class Exchange(HeldBody):
    """`response_complete`, `disconnected`, `keep_alive` and `message_event` are uvicorn's names."""

    message_event: ClassVar = _NobodyWaits()

    def __init__(self, protocol: ClientConnection, target: bytes, headers: Headers) -> None:
        super().__init__()
        self._protocol = protocol
        self._body: list[bytes] = []
        # Short parts that stand behind those.
        self._gathered: bytearray | None = None
        self._on_drained: Callable[[], None] | None = None
        self._is_chunked = True
        self._state = _READING
        self.transport: asyncio.Transport = protocol.transport
        self.target = target
        self.headers = headers
        # What was read of the headers, where an earlier request had much the same.
        self.caller: CallerHeaders | None = None
        self.is_length_checked = False
        self.is_full = False
        self.keep_alive = True
        self.speaks_chunked = True
        self.status = 0
        self.task: asyncio.Task[None] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the request is there and can be served."""
        return self._state is _WHOLE

    @property
    def is_started(self) -> bool:
        """Whether a stream has begun and has not ended."""
        return self._state is _STARTED

    @property
    def response_complete(self) -> bool:
        return self._state is _COMPLETE

    @property
    def disconnected(self) -> bool:
        return self._state is _GONE

    @disconnected.setter
    def disconnected(self, value: bool) -> None:
        # uvicorn sets this for the newest request of a lost connection, which has left by then.
        assert value
        self._lose_client()

    def end_body(self) -> None:
        """The body has come to its end."""
        if self._state is _READING:
            self._state = _WHOLE

    def add_body(self, data: bytes) -> None:
        """Take the next part of the body."""
        gathered = self._gathered
        if not data:
            return
        if gathered is None:
            if len(data) >= _SHORT_BYTES or not self._body:
                self._body.append(data)
                return
            gathered = self._gathered = bytearray()
        gathered += data
        if len(gathered) >= _PART_BYTES:
            self._end_part()

    def take_body(self) -> bytes:
        """The whole body, once; it is not kept here afterwards."""
        parts = self.take_parts()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def take_parts(self) -> list[bytes]:
        """The same in parts, for what is too long to be joined on the event loop."""
        self._end_part()
        parts, self._body = self._body, []
        return parts

    def drop_body(self) -> None:
        """Free what nobody will take: this object lives as long as its connection is idle."""
        self._body, self._gathered = [], None

    def answer(self, status: int, headers: bytes, body: bytes) -> None:
        """A whole answer in one write."""
        if self._has_answer():
            return
        self.status = status
        self.transport.write(
            b"%s%s%scontent-length: %s\r\n%s%s"
            % (
                _OK_LINE if status == 200 else STATUS_LINES[status],
                self._protocol.date_header(),
                headers,
                whole(len(body)),
                b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n",
                body,
            )
        )
        self._complete()

    def start_stream(self, headers: bytes, first: bytes, *, is_chunked: bool) -> None:
        """The head of a streamed answer, and what there is of it: the client wakes once for both.

        HTTP/1.0 has no chunks: it ends by closing.
        """
        if self._has_answer():
            return
        self._state = _STARTED
        self.status = 200
        self._is_chunked = is_chunked
        if not is_chunked:
            self.keep_alive = False
        self.transport.write(
            b"%s%s%s%s%s%s\r\n%s"
            % (
                _OK_LINE,
                self._protocol.date_header(),
                EVENT_STREAM,
                headers,
                b"transfer-encoding: chunked\r\n" if is_chunked else b"",
                b"" if self.keep_alive else b"connection: close\r\n",
                self._framed(first),
            )
        )

    def write(self, data: bytes) -> None:
        """The next part of a stream."""
        if self._state is _STARTED and data:
            self.transport.write(self._framed(data))

    def end_stream(self) -> None:
        if self._state is not _STARTED:
            return
        if self._is_chunked:
            self.transport.write(LAST_CHUNK)
        self._complete()

    def when_drained(self, resume: Callable[[], None]) -> None:
        self._on_drained = resume

    # Called by the protocol

    def fill(self) -> None:
        """The client reads more slowly than we write."""
        self.is_full = True

    def drain(self) -> None:
        """The client has caught up."""
        self.is_full = False
        resume, self._on_drained = self._on_drained, None
        if resume is not None:
            resume()

    def leave(self) -> None:
        """The client is gone: whatever runs for it is stopped, and the engine with it."""
        was_answered = self._state is _COMPLETE
        self._lose_client()
        self._on_drained = None
        # This object may wait long to be collected. It must not hold what may be large: a body
        # that was refused or never complete, and by the task's frames one that was served.
        self.drop_body()
        task, self.task = self.task, None
        if task is not None and not was_answered:
            task.cancel()

    def _end_part(self) -> None:
        gathered, self._gathered = self._gathered, None
        if gathered is not None:
            self._body.append(bytes(gathered))

    def _framed(self, data: bytes) -> bytes:
        # An empty chunk would be the end of the body.
        return chunk(data) if self._is_chunked and data else data

    def _has_answer(self) -> bool:
        """Whether an answer has begun, or nobody would get one."""
        return self._state is not _READING and self._state is not _WHOLE

    def _lose_client(self) -> None:
        # A complete answer stays complete, whatever its client does then.
        if self._state is not _COMPLETE:
            self._state = _GONE

    def _complete(self) -> None:
        self._state = _COMPLETE
        if not self.keep_alive:
            self.transport.close()
        self._protocol.on_response_complete()
