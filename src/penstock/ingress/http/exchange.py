"""One hot request and its answer on a client's connection, written straight to the transport.

`Exchange` replaces uvicorn's RequestResponseCycle on the hot paths: ASGI's send and receive cost
more per chunk than all other work on it (docs/decisions/0002-http-server.md).
uvicorn still owns the connection: parsing, pipelining, keep-alive, graceful shutdown.
"""

import asyncio
import enum
from collections.abc import Callable
from http import HTTPStatus
from typing import ClassVar, Final, Protocol

from penstock.ingress.http.body_budget import HeldBody
from penstock.intake.caller_headers import CallerHeaders
from penstock.records.decimals import whole
from penstock.wire.http.chunks import LAST_CHUNK, chunk

Headers = list[tuple[bytes, bytes]]

STATUS_LINES: Final = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_OK_LINE: Final = STATUS_LINES[200]
# Shorter parts of a body are merged into parts of `_PART_BYTES`: two million parts of two bytes
# would take 60 times their own size.
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
    """Replaces the event by which uvicorn wakes an ASGI application; nothing waits on it."""

    def set(self) -> None: ...


class ExchangeState(enum.Enum):
    """The progress of one request and its answer. A whole answer skips STARTED."""

    # The request's body is still coming.
    READING = "reading"
    # The request has arrived in full, and no answer has begun.
    WHOLE = "whole"
    # The head of a stream is written, and its end is not.
    STARTED = "started"
    # The answer is written in full.
    COMPLETE = "complete"
    # The client disconnected before the answer was complete.
    GONE = "gone"


# Bound once, because compiled code would look each member up in its class, for every chunk.
_READING: Final = ExchangeState.READING
_WHOLE: Final = ExchangeState.WHOLE
_STARTED: Final = ExchangeState.STARTED
_COMPLETE: Final = ExchangeState.COMPLETE
_GONE: Final = ExchangeState.GONE


class Exchange(HeldBody):
    """One inference request and its answer, in place of uvicorn's cycle.

    `response_complete`, `disconnected`, `keep_alive` and `message_event` are uvicorn's names.
    """

    message_event: ClassVar = _NobodyWaits()

    def __init__(self, protocol: ClientConnection, target: bytes, headers: Headers) -> None:
        super().__init__()
        self._protocol = protocol
        self._body: list[bytes] = []
        # Short parts that follow those in `_body`.
        self._gathered: bytearray | None = None
        self._on_drained: Callable[[], None] | None = None
        self._is_chunked = True
        self._state = _READING
        self.transport: asyncio.Transport = protocol.transport
        self.target = target
        self.headers = headers
        self.caller = CallerHeaders(headers)
        self.is_length_checked = False
        self.is_full = False
        self.keep_alive = True
        self.speaks_chunked = True
        self.status = 0
        self.task: asyncio.Task[None] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the request has arrived in full and can be served."""
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
        # uvicorn sets this on the newest request of a lost connection, after `leave`.
        assert value
        self._lose_client()

    def end_body(self) -> None:
        """Mark the body as complete."""
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
        """Return the whole body, and drop it from this object."""
        parts = self.take_parts()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def take_parts(self) -> list[bytes]:
        """Return the body in parts, for one too long to be joined on the event loop."""
        self._end_part()
        parts, self._body = self._body, []
        return parts

    def drop_body(self) -> None:
        """Free an unread body: this object lives as long as its connection is idle."""
        self._body, self._gathered = [], None

    def answer(self, status: int, headers: bytes, body: bytes) -> None:
        """Send a whole answer in one write."""
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
        """Send the head of a stream and its first bytes in one write: the client wakes once.

        HTTP/1.0 has no chunks: there, closing the connection ends the stream.
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
        """Send the next part of a stream."""
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
        """Note that the client reads more slowly than the gateway writes."""
        self.is_full = True

    def drain(self) -> None:
        """Note that the client has caught up, and resume the writer."""
        self.is_full = False
        resume, self._on_drained = self._on_drained, None
        if resume is not None:
            resume()

    def leave(self) -> None:
        """Stop serving a client that has disconnected, and with it the engine's work."""
        was_answered = self._state is _COMPLETE
        self._lose_client()
        self._on_drained = None
        # This object may live long until it is collected, so it drops what may be large: a refused
        # or incomplete body, and the task, whose frames hold a served one.
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
        """Return whether an answer has begun, or the client is gone."""
        return self._state is not _READING and self._state is not _WHOLE

    def _lose_client(self) -> None:
        # A complete answer stays complete, even if its client disconnects later.
        if self._state is not _COMPLETE:
            self._state = _GONE

    def _complete(self) -> None:
        self._state = _COMPLETE
        if not self.keep_alive:
            self.transport.close()
        self._protocol.on_response_complete()
