"""One HTTP/1.1 connection to an engine: uvloop transport, httptools parser, callbacks, no tasks.

Why our own: httpx costs 16 times the CPU of this per request and aiohttp's client 2 to 2.5 times
(docs/decisions/0003-upstream-connection.md). It speaks only what an engine needs: one request at
a time, content-length bodies up, any framing down.
"""

import asyncio
import logging
from typing import Final, cast

import httptools
from msgspec import Raw

from penstock.errors import EngineFailed, Error, ReplicaUnreachable
from penstock.wire.chunks import chunk_line, only_chunk
from penstock.wire.known_head import Headers, KnownHead

logger = logging.getLogger(__name__)

_LINE_END: Final = b"\r\n"
# The colon, the space and the line's end.
_AROUND_HEADER: Final = 4
_OK: Final = 200
_OK_LINE: Final = b"HTTP/1.1 200 "

_BAD_FRAMING: Final = (httptools.HttpParserError, httptools.HttpParserUpgrade)
_CALLBACK_FAILED: Final = httptools.HttpParserCallbackError
# That of a closed connection. Its own one holds it by its callbacks: the two would wait for a
# collection of garbage, which here comes late, and be 3 KB each time until then.
_NO_PARSER: Final = httptools.HttpResponseParser(object())


class Receiver:
    """Takes one answer as it comes. `on_read_end` follows the last callback of each read.

    A class and not a Protocol: so compiled code calls it directly, for every chunk.
    """

    __slots__ = ()

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        raise NotImplementedError

    def on_body(self, data: bytes) -> None:
        raise NotImplementedError

    def on_read_end(self) -> None:
        raise NotImplementedError

    def on_complete(self) -> None:
        raise NotImplementedError

    def on_lost(self, error: Error, *, answered: bool) -> None:
        raise NotImplementedError


class IdleCallback:
    """The pool's ear: a connection fell idle, or is closed. A class for the same reason."""

    def idle(self, connection: "Connection") -> None:
        raise NotImplementedError

    def closed(self, connection: "Connection") -> None:
        raise NotImplementedError


class Connection(asyncio.Protocol):
    """`is_usable` is false once the peer or we closed it; a usable idle one may be pooled."""

    __slots__ = (
        "_answered", "_has_head", "_head_bytes", "_head_bytes_max", "_headers", "_is_at_chunk",
        "_is_paused", "_known", "_on_idle", "_parser", "_receiver", "_transport", "idle_since",
        "is_usable",
    )  # fmt: skip

    def __init__(self, on_idle: IdleCallback, head_bytes_max: int) -> None:
        self._on_idle = on_idle
        self._head_bytes_max = head_bytes_max
        # Bytes that the parser has read since the answer's last body byte, or since its beginning.
        self._head_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._receiver: Receiver | None = None
        self._headers: Headers = []
        self._known = KnownHead()
        self._answered = False
        self._has_head = False
        self._is_paused = False
        # Whether the parser has read whole chunks only, and the next byte begins another.
        self._is_at_chunk = False
        self.is_usable = False
        self.idle_since = 0.0

    def send(self, pieces: list[bytes | Raw], receiver: Receiver) -> None:
        """Send one request, head and body; its answer goes to `receiver`."""
        assert self._receiver is None
        assert self._transport is not None
        self._receiver = receiver
        self._answered = False
        self._has_head = False
        self._head_bytes = 0
        self._is_at_chunk = False
        self._headers = []
        first = pieces[0]
        if len(pieces) == 1 and isinstance(first, bytes):
            self._transport.write(first)
        else:
            # In one system call. The kernel would send each write at once, and on the same host
            # take it in for the engine, too, on our time.
            self._transport.writelines([memoryview(piece) for piece in pieces])

    def abort(self) -> None:
        """Drop the connection at once; the engine stops generating when it notices."""
        self._receiver = None
        self.is_usable = False
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._is_paused = True

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._is_paused = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop sets TCP_NODELAY on every TCP transport by itself.
        self._transport = cast("asyncio.Transport", transport)
        self.is_usable = True

    def data_received(self, data: bytes) -> None:
        receiver = self._receiver
        if receiver is None:
            # Nobody asked: an engine that speaks out of turn is not trusted with the next request.
            self.abort()
            return
        try:
            data = self._read(receiver, data)
        except Exception as bad:
            # The receiver's own faults come out of the parser's callbacks, or of a chunk.
            if not isinstance(bad, _BAD_FRAMING) or isinstance(bad, _CALLBACK_FAILED):
                logger.exception("receiver crashed", extra={"action": "crash"})
            self.abort()
            # Also when it has had its last callback: if that one failed, nobody else would tell it.
            receiver.on_lost(EngineFailed("The engine's answer is not HTTP."), answered=True)
            return
        if self._is_at_chunk and data and not data.endswith(_LINE_END):
            # Behind the chunk came a part of the next one's line, which no callback tells.
            self._is_at_chunk = False
        if self._head_bytes > self._head_bytes_max and self._receiver is receiver:
            self._refuse_head()
        elif self._receiver is receiver:
            receiver.on_read_end()
        elif self.is_usable:
            self._rest()
        else:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        self._transport = None
        if exc is None and self._receiver is not None and self._ends_with_close():
            self.on_message_complete()
        self._lose(ReplicaUnreachable(f"The connection to the engine was lost: {exc or 'closed'}."))
        self._on_idle.closed(self)
        self._parser = _NO_PARSER

    # httptools callbacks

    def on_message_begin(self) -> None:
        if self._receiver is None:
            # A second answer behind the first would be taken for that of the next request.
            self.is_usable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name if name.islower() else name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._head_bytes > self._head_bytes_max and self._headers_size() > self._head_bytes_max:
            self._refuse_head()
            return
        status = self._parser.get_status_code()
        if status >= 200 and self._receiver is not None:
            if not self._has_head:
                self._has_head = True
                self._receiver.on_head(status, self._headers)
            for name, value in self._headers:
                if name == b"transfer-encoding" and value.lower() == b"chunked":
                    self._is_at_chunk = True

    def on_chunk_header(self) -> None:
        self._is_at_chunk = False

    def on_chunk_complete(self) -> None:
        self._is_at_chunk = True

    def on_body(self, data: bytes) -> None:
        self._head_bytes = 0
        if self._receiver is not None:
            self._receiver.on_body(data)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200:
            self._headers = []
            return
        if not self._parser.should_keep_alive():
            self.is_usable = False
        self._complete()

    def _complete(self) -> None:
        self._is_at_chunk = False
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.on_read_end()
            receiver.on_complete()

    def _read(self, receiver: Receiver, data: bytes) -> bytes:
        """Hand on what can be known without the parser; it is given the rest."""
        is_first, self._answered = not self._answered, True
        if is_first:
            data = self._take_known(receiver, data)
        elif self._is_at_chunk:
            data = self._take_chunks(receiver, data)
        if data:
            self._head_bytes += len(data)
            self._parser.feed_data(data)
            if is_first and self.is_usable and self._receiver is None:
                self._known.learn(data, self._headers, _OK_LINE)
        return data

    def _take_known(self, receiver: Receiver, data: bytes) -> bytes:
        """Hand on a whole answer with a head like the last one's; else it is left to the parser.

        All of the answer must be there: the parser stands between two answers, and cannot tell
        that it did not see this one.
        """
        known = self._known
        start = known.body_at(data)
        if start < 0 or len(data) != start + known.body_bytes:
            return data
        self._has_head = True
        receiver.on_head(_OK, known.headers)
        if start < len(data):
            self.on_body(data[start:])
        self._complete()
        return b""

    def _take_chunks(self, receiver: Receiver, data: bytes) -> bytes:
        """Hand on the whole chunks that data begins with; what is left is for the parser.

        To find the two ends of a chunk costs a quarter of what the parser and its callbacks do. The
        parser stands at the same place of a later chunk then, and cannot tell that it did not see
        those between.
        """
        token = only_chunk(data)
        if token is not None:
            receiver.on_body(token)
            return b""
        at, end = 0, len(data)
        while at < end and self._receiver is receiver:
            start, size = chunk_line(data, at)
            stop = start + size
            if not size or stop + 2 > end or data[stop : stop + 2] != _LINE_END:
                break
            receiver.on_body(data[start:stop])
            at = stop + 2
        return data[at:] if at else data

    def _rest(self) -> None:
        """The answer is complete and nothing came behind it: the next request may have this one."""
        if self._is_paused:
            self.resume_reading()
        self._on_idle.idle(self)

    def _headers_size(self) -> int:
        return sum(len(name) + len(value) + _AROUND_HEADER for name, value in self._headers)

    def _refuse_head(self) -> None:
        """End an answer whose head, trailers or chunk lines exceed `engine.head_bytes_max`."""
        self.is_usable = False
        self._lose(EngineFailed("The answer's head is larger than `engine.head_bytes_max`."))
        self.abort()

    def _ends_with_close(self) -> bool:
        """Whether the answer has neither length nor chunks, so that closing is how it ends."""
        framings = (b"content-length", b"transfer-encoding")
        return self._has_head and not any(name in framings for name, _ in self._headers)

    def _lose(self, error: Error) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            receiver.on_lost(error, answered=self._answered)
