"""Parses the HTTP answer of a server that nobody here trusts: its head, then its body in pieces.

The server chooses the framing, so heads and bodies have a bound, and what is no HTTP is an error.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import httptools

_READ_BYTES: Final = 64 * 1024
_HEAD_BYTES_MAX: Final = 64 * 1024
_BAD_FRAMING: Final = (httptools.HttpParserError, httptools.HttpParserUpgrade)
# The parser of an answer that is not read further: a parser and its answer refer to each other.
_NO_PARSER: Final = httptools.HttpResponseParser(object())


class CallFailed(Exception):
    """A call has no whole HTTP answer; the message says why, without the server's own words.

    `is_sent` is False if the request was surely not sent; `is_late` if there was no answer in time.
    """

    def __init__(self, problem: str, *, is_sent: bool, is_late: bool = False) -> None:
        super().__init__(problem)
        self.is_sent = is_sent
        self.is_late = is_late


class HttpReply:
    """One answer. `read_head` first; then `pieces` yields the body as it comes."""

    def __init__(self, reader: asyncio.StreamReader, body_bytes_max: int) -> None:
        self._reader = reader
        self._parser = httptools.HttpResponseParser(self)
        self._left = body_bytes_max
        self._pieces: list[bytes] = []
        self._has_head = False
        self._is_complete = False
        self.status = 0
        # By lower-case name; of a header that comes twice, the first.
        self.headers: dict[str, str] = {}

    async def read_head(self) -> None:
        """Read until the head is there. CallFailed if there is none."""
        read = 0
        while not self._has_head:
            read += await self._read()
            if not self._has_head and (self._is_complete or read > _HEAD_BYTES_MAX):
                raise _failed("the answer has no head, or one that is too large")

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body. CallFailed if it is cut, or longer than allowed."""
        while True:
            for piece in self._taken():
                yield piece
            if self._is_complete:
                return
            await self._read()

    async def body(self) -> bytes:
        """Return the whole body."""
        return b"".join([piece async for piece in self.pieces()])

    def close(self) -> None:
        """Drop the parser."""
        self._parser = _NO_PARSER

    async def _read(self) -> int:
        """Read and parse what comes next."""
        try:
            data = await self._reader.read(_READ_BYTES)
        except OSError as broken:
            raise _failed(f"the answer broke off ({type(broken).__name__})") from None
        if not data:
            is_end = self._has_head and _ends_by_close(self.headers)
            if not is_end:
                raise _failed("the answer broke off")
            self._is_complete = True
            return 0
        try:
            self._parser.feed_data(data)
        except _BAD_FRAMING:
            # Bytes after a whole answer are ignored with the connection.
            if not self._is_complete:
                raise _failed("the answer is not HTTP") from None
        return len(data)

    def _taken(self) -> list[bytes]:
        taken, self._pieces = self._pieces, []
        self._left -= sum(map(len, taken))
        if self._left < 0:
            raise _failed("the answer is larger than allowed")
        return taken

    # httptools calls these.

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:
            self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if not self._has_head and status >= 200:
            self.status, self._has_head = status, True

    def on_body(self, data: bytes) -> None:
        if self._has_head and not self._is_complete:
            self._pieces.append(data)

    def on_message_complete(self) -> None:
        if self._has_head:
            self._is_complete = True
        else:
            # An interim answer: its headers are not those of the answer that follows.
            self.headers = {}


def _ends_by_close(headers: dict[str, str]) -> bool:
    return not {"content-length", "transfer-encoding"} & headers.keys()


def _failed(problem: str) -> CallFailed:
    return CallFailed(problem, is_sent=True)
