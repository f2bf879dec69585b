"""What is fired at a gateway, and what came back: plain records, and the reading of an answer.

The reading is strict: an answer that a careful HTTP client would stumble over is a failure here.
"""

import asyncio
import re

import msgspec

_STATUS_LINE = re.compile(rb"HTTP/1\.1 ([1-5]\d\d) [ -~]*")
_HEADER_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9a-z-]+): ([\t -~\x80-\xff]*)")
_CHUNK_SIZE = re.compile(rb"[0-9a-f]{1,8}\r\n")
_ONCE_ONLY = (
    "content-length", "transfer-encoding", "content-type", "x-request-id", "date", "location",
)  # fmt: skip


class Malformed(AssertionError):
    """The answer is not one that HTTP or our own wire allows."""


class Shot(msgspec.Struct, frozen=True):
    """One request, as bytes. `kind` is what it is counted under."""

    kind: str
    data: bytes
    # The head and the length of the body are in order: the connection must stay usable.
    is_framed: bool = True
    # What follows the request may be taken for a second, broken one; then all may be dropped.
    may_be_dropped: bool = False
    # How many requests it holds, all of which are answered.
    answers: int = 1
    # HEAD is answered without a body.
    is_head: bool = False
    # The engine is told to fail, so that a 500 with the engine's code is in order.
    is_engine_faulty: bool = False
    # The engine is told to stall, so that a timeout is in order.
    is_engine_slow: bool = False
    # The caller goes away this long after sending; None waits for the answer.
    leaves_after: float | None = None

    def shown(self) -> str:
        """As it is printed when it fails: short enough to read, enough to send again."""
        shown = (
            self.data if len(self.data) < 4000 else self.data[:2000] + b" ... " + self.data[-500:]
        )
        return f"{self.kind} ({len(self.data)} bytes): {shown!r}"


class Answer(msgspec.Struct):
    """One whole answer, its transfer coding taken off."""

    status: int
    headers: dict[str, str]
    body: bytes
    is_closing: bool

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]


async def read_answer(reader: asyncio.StreamReader, *, is_head: bool = False) -> Answer:
    """The next answer; interim ones (100) are passed over."""
    while True:
        status, headers = await _read_head(reader)
        if status != 100:
            break
    is_closing = headers.get("connection", "").lower() == "close"
    body = b""
    if not is_head and status not in (204, 304):
        body = await _read_body(reader, headers, is_closing=is_closing)
    return Answer(status, headers, body, is_closing)


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
    first = _STATUS_LINE.fullmatch(lines[0])
    if first is None:
        raise Malformed(f"not a status line: {lines[0]!r}")
    headers: dict[str, str] = {}
    for line in lines[1:]:
        match = _HEADER_LINE.fullmatch(line)
        if match is None:
            raise Malformed(f"not a header: {line!r}")
        name = match[1].decode()
        if name in headers and name in _ONCE_ONLY:
            raise Malformed(f"`{name}` comes twice")
        headers[name] = match[2].decode("latin-1")
    return int(first[1]), headers


async def _read_body(
    reader: asyncio.StreamReader, headers: dict[str, str], *, is_closing: bool
) -> bytes:
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if coding != "chunked" or length is not None:
            raise Malformed(f"framed twice: {headers}")
        return await _read_chunks(reader)
    if length is not None:
        return await reader.readexactly(int(length))
    if not is_closing:
        raise Malformed(f"no end of the body is given: {headers}")
    return await reader.read(-1)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    while True:
        line = await reader.readuntil(b"\r\n")
        if _CHUNK_SIZE.fullmatch(line) is None:
            raise Malformed(f"not a chunk's size: {line!r}")
        size = int(line, 16)
        data = await reader.readexactly(size + 2)
        if data[-2:] != b"\r\n":
            raise Malformed(f"a chunk of {size} bytes does not end there: {data[-20:]!r}")
        if not size:
            return b"".join(parts)
        parts.append(data[:-2])
