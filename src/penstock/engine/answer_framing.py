"""Parses the framing of an engine's answers: bytes in, heads and bodies out, no transport.

The states of one answer:

    HEAD ──► SIZED or UNTIL_CLOSE ──────────► COMPLETE
      └────► CHUNK_START ◄──► CHUNK ────────────┘

and STOPPED from each of them, when the rest is not wanted. llhttp parses all but two cases, which
bypass it: a whole answer with a known head, and whole chunks as engines usually write them.
"""

import enum
from typing import Final

import httptools

from penstock.errors import EngineFailed, Error
from penstock.wire.http.chunks import chunk_line, only_chunk
from penstock.wire.http.known_head import Headers, KnownHead

_LINE_END: Final = b"\r\n"
# The colon, the space and the line's end.
_AROUND_HEADER: Final = 4
_OK: Final = 200
_OK_LINE: Final = b"HTTP/1.1 200 "
_BAD_FRAMING: Final = (httptools.HttpParserError, httptools.HttpParserUpgrade)
# The parser of a closed connection. Its own parser and the framing refer to each other: both would
# take 3 KB until a garbage collection, which here comes late.
_NO_PARSER: Final = httptools.HttpResponseParser(object())


class FramingState(enum.Enum):
    """Where in an answer the next byte belongs."""

    HEAD = "head"
    # The body is as long as the head says.
    SIZED = "sized"
    # The body ends with the connection.
    UNTIL_CLOSE = "until_close"
    # The next byte begins the line of another chunk, or of the last one.
    CHUNK_START = "chunk_start"
    # Within a chunk, its line, or the trailers.
    CHUNK = "chunk"
    # The answer has ended, or none is awaited.
    COMPLETE = "complete"
    # The answer is invalid, or its receiver dropped the connection.
    STOPPED = "stopped"


# Bound once, because compiled code would look up each member in its class for every chunk.
_HEAD: Final = FramingState.HEAD
_SIZED: Final = FramingState.SIZED
_UNTIL_CLOSE: Final = FramingState.UNTIL_CLOSE
_CHUNK_START: Final = FramingState.CHUNK_START
_CHUNK: Final = FramingState.CHUNK
_COMPLETE: Final = FramingState.COMPLETE
_STOPPED: Final = FramingState.STOPPED


class Receiver:
    """Takes one answer as it comes. `on_read_end` follows the last callback of each read.

    A class, not a Protocol, so that compiled code calls it directly, for every chunk.
    """

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


class AnswerFraming:
    """Parses the answers of one connection, one after the other. `begin` each, then `feed` it.

    It passes heads and bodies to a receiver; the connection reports the ends of reads and answers.
    """

    def __init__(self, head_bytes_max: int) -> None:
        self._parser = httptools.HttpResponseParser(self)
        # None when no more is wanted: the answer is complete, or was stopped.
        self._receiver: Receiver | None = None
        self._state = _COMPLETE
        self._headers: Headers = []
        self._known = KnownHead()
        self._head_bytes_max = head_bytes_max
        # Bytes that the parser has read since the answer's last body byte, or since its beginning.
        self._head_bytes = 0
        # Whether any byte of the answer has come.
        self.has_begun = False
        # Whether another answer may follow on the same connection.
        self.is_reusable = True

    @property
    def is_complete(self) -> bool:
        return self._state is _COMPLETE

    @property
    def ends_by_close(self) -> bool:
        """Whether the answer has neither length nor chunks, so that closing is how it ends."""
        return self._state is _UNTIL_CLOSE

    def begin(self, receiver: Receiver) -> None:
        """Await the next answer."""
        assert self._state is _COMPLETE, "one answer at a time"
        self._state = _HEAD
        self._receiver = receiver
        self._headers = []
        self._head_bytes = 0
        self.has_begun = False

    def feed(self, data: bytes) -> None:
        """Parse received bytes. Raises EngineFailed if not HTTP, or if the head is too large."""
        is_first, self.has_begun = not self.has_begun, True
        if is_first and self._take_known(data):
            return
        if self._state is _CHUNK_START:
            data = self._take_chunks(data)
        if not data or self._state is _STOPPED:
            return
        self._parse(data)
        if self._state is _CHUNK_START and not data.endswith(_LINE_END):
            # After the chunk came a part of the next one's line, which no callback reports.
            self._state = _CHUNK
        if is_first and self._state is _COMPLETE and self.is_reusable:
            self._known.learn(data, self._headers, _OK_LINE)

    def stop(self) -> None:
        """Pass nothing more to the receiver."""
        self._state = _STOPPED
        self._receiver = None

    def close(self) -> None:
        """Drop the parser of an ended connection, which refers to this framing."""
        self.stop()
        self._parser = _NO_PARSER

    # httptools callbacks

    def on_message_begin(self) -> None:
        if self._state is _COMPLETE:
            # A second answer after the first would be taken for that of the next request.
            self.is_reusable = False

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers come through this callback too, and are ignored.
        if self._state is _HEAD:
            self._headers.append((name if name.islower() else name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._state is not _HEAD:
            return
        if self._head_bytes > self._head_bytes_max and self._headers_size() > self._head_bytes_max:
            # `_parse` raises the error, because `_head_bytes` stays too large.
            self._state = _STOPPED
            return
        status = self._parser.get_status_code()
        if status >= 200 and self._receiver is not None:
            self._state = _body_state(self._headers)
            self._receiver.on_head(status, self._headers)

    def on_chunk_header(self) -> None:
        if self._is_in_body():
            self._state = _CHUNK

    def on_chunk_complete(self) -> None:
        if self._is_in_body():
            self._state = _CHUNK_START

    def on_body(self, data: bytes) -> None:
        if self._is_in_body() and self._receiver is not None:
            self._head_bytes = 0
            self._receiver.on_body(data)

    def on_message_complete(self) -> None:
        if self._is_in_body():
            self.is_reusable = self._parser.should_keep_alive()
            self._complete()
        elif self._state is _HEAD:
            # An interim answer: its headers do not belong to the answer that follows.
            self._headers = []

    def _is_in_body(self) -> bool:
        state = self._state
        return state is not _HEAD and state is not _COMPLETE and state is not _STOPPED

    def _parse(self, data: bytes) -> None:
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            # A callback failed, not the parser.
            raise
        except _BAD_FRAMING:
            # Invalid bytes after an answer do not make the answer invalid.
            self.is_reusable = False
            if self._receiver is not None:
                raise EngineFailed("The engine's answer is not HTTP.") from None
        if self._head_bytes > self._head_bytes_max and self._receiver is not None:
            raise EngineFailed("The answer's head is larger than `engine.head_bytes_max`.")

    def _take_known(self, data: bytes) -> bool:
        """Pass on a whole answer with a head like the last one's; return False for any other.

        All of the answer must be there: the parser's state, between two answers, is then the same
        as if it had parsed this one.
        """
        known, receiver = self._known, self._receiver
        start = known.body_at(data)
        if start < 0 or len(data) != start + known.body_bytes or receiver is None:
            return False
        self._state = _SIZED
        receiver.on_head(_OK, known.headers)
        if start < len(data) and self._state is _SIZED:
            receiver.on_body(data[start:])
        if self._state is _SIZED:
            self._complete()
        return True

    def _take_chunks(self, data: bytes) -> bytes:
        """Pass on the whole chunks that data begins with; return the rest, for the parser.

        Finding the two ends of a chunk costs a quarter of the parser and its callbacks. The state
        of the parser is the same before every chunk, so it need not see these.
        """
        receiver = self._receiver
        if receiver is None:
            return data
        token = only_chunk(data)
        if token is not None:
            receiver.on_body(token)
            return b""
        at, end = 0, len(data)
        while at < end and self._state is _CHUNK_START:
            start, size = chunk_line(data, at)
            stop = start + size
            if not size or stop + 2 > end or data[stop : stop + 2] != _LINE_END:
                break
            receiver.on_body(data[start:stop])
            at = stop + 2
        return data[at:] if at else data

    def _complete(self) -> None:
        self._state = _COMPLETE
        # An idle connection must not keep the request that it served last in memory.
        self._receiver = None

    def _headers_size(self) -> int:
        return sum(len(name) + len(value) + _AROUND_HEADER for name, value in self._headers)


def _body_state(headers: Headers) -> FramingState:
    state = _UNTIL_CLOSE
    for name, value in headers:
        if name == b"transfer-encoding":
            return _CHUNK_START if value.lower() == b"chunked" else _SIZED
        if name == b"content-length":
            state = _SIZED
    return state
