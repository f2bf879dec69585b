"""One HTTP request to a sandbox host, on a connection of its own.

Requests are few and long: a connection each costs little, and one that breaks concerns one request.
Every wait has an end: a host that closes is noticed at once; one that vanishes from the network
within two seconds, by TCP's keep-alive; one that hangs at the request's deadline.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from penstock.outbound.target import Target

_HEADERS_MAX: Final = 64
_PIECE_BYTES: Final = 64 * 1024
# A host that does not acknowledge for so long is gone: a probe after one second, and the end of the
# connection if a second later there is no answer to it.
_SILENT_MILLISECONDS: Final = 1500
# A larger body may wait until a host with too much to do reads it. For TCP that is silence, too.
_SHORT_BYTES: Final = 16 * 1024
_CONNECT_SECONDS: Final = 2.0
FAILURES: Final = (
    *(OSError, ValueError, EOFError),
    *(asyncio.LimitOverrunError, msgspec.MsgspecError),
)


class NoConnection(OSError):
    """The host could not be reached, so it got nothing of the request."""


class HostRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to send: `path` below the host's address, and how long the whole answer may take."""

    method: str
    path: str
    body: bytes = b""
    seconds: float


class HostAnswer:
    """An answer whose head has arrived. Its body is read once, by `whole` or `pieces`."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        status: int,
        headers: dict[bytes, bytes],
        deadline: float,
    ) -> None:
        self.status = status
        self._reader = reader
        self._headers = headers
        self._deadline = deadline

    async def whole(self, bytes_max: int) -> bytes:
        """Return the body; ValueError if it is longer than `bytes_max`."""
        body = bytearray()
        async for piece in self.pieces(bytes_max):
            body += piece
        return bytes(body)

    async def pieces(self, bytes_max: int) -> AsyncIterator[bytes]:
        """Yield the body as it comes; ValueError once it is longer than `bytes_max`."""
        size = 0
        async for piece in self._framed():
            size += len(piece)
            if size > bytes_max:
                raise ValueError(f"the answer is longer than {bytes_max} bytes")
            yield piece

    async def lines(self, line_bytes_max: int, bytes_max: int) -> AsyncIterator[bytes]:
        """Yield the body's lines as they come, without their ends."""
        rest = bytearray()
        async for piece in self.pieces(bytes_max):
            *whole, last = piece.split(b"\n")
            for line in whole:
                rest += line
                _check_line(rest, line_bytes_max)
                yield bytes(rest)
                rest.clear()
            rest += last
            _check_line(rest, line_bytes_max)
        if rest:
            yield bytes(rest)

    async def _framed(self) -> AsyncIterator[bytes]:
        if b"chunked" in self._headers.get(b"transfer-encoding", b"").lower():
            while size := int((await self._line()).partition(b";")[0], 16):
                async for piece in self._exactly(size):
                    yield piece
                await self._line()
            return
        length = self._headers.get(b"content-length")
        if length is None:
            raise ValueError("the answer does not say how long it is")
        async for piece in self._exactly(int(length)):
            yield piece

    async def _exactly(self, size: int) -> AsyncIterator[bytes]:
        if size < 0:
            raise ValueError("a length below 0")
        while size:
            async with asyncio.timeout_at(self._deadline):
                piece = await self._reader.read(min(size, _PIECE_BYTES))
            if not piece:
                raise EOFError("the host closed the connection")
            size -= len(piece)
            yield piece

    async def _line(self) -> bytes:
        async with asyncio.timeout_at(self._deadline):
            return (await self._reader.readuntil(b"\r\n"))[:-2]


@contextlib.asynccontextmanager
async def exchange(
    target: Target, token: str, tls: ssl.SSLContext | None, request: HostRequest
) -> AsyncIterator[HostAnswer]:
    """Send a request; yield its answer. All failures on the way are among `FAILURES`."""
    deadline = asyncio.get_running_loop().time() + request.seconds
    try:
        async with asyncio.timeout(min(_CONNECT_SECONDS, request.seconds)):
            reader, writer = await asyncio.open_connection(
                target.host, target.port, ssl=tls if target.is_tls else None
            )
    except OSError as failure:
        raise NoConnection(str(failure) or "no connection in time") from failure
    try:
        _watch(writer.get_extra_info("socket"), is_short=len(request.body) <= _SHORT_BYTES)
        async with asyncio.timeout_at(deadline):
            writer.write(_head(target, token, request) + request.body)
            status, headers = await _read_head(reader)
        yield HostAnswer(reader, status, headers, deadline)
    finally:
        # The answer was read, or nobody wants its rest.
        writer.transport.abort()


def _head(target: Target, token: str, request: HostRequest) -> bytes:
    lines = [
        f"{request.method} {request.path} HTTP/1.1",
        f"host: {target.authority}",
        *([f"authorization: Bearer {token}"] if token else []),
        f"content-length: {len(request.body)}",
        "connection: close",
    ]
    return "\r\n".join([*lines, "", ""]).encode("ascii")


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[bytes, bytes]]:
    version, _, rest = (await reader.readuntil(b"\r\n")).partition(b" ")
    if not version.startswith(b"HTTP/1."):
        raise ValueError("that is no HTTP server")
    headers: dict[bytes, bytes] = {}
    for _ in range(_HEADERS_MAX):
        line = await reader.readuntil(b"\r\n")
        if line == b"\r\n":
            return int(rest[:3]), headers
        name, _, value = line.partition(b":")
        headers[name.strip().lower()] = value.strip()
    raise ValueError("the answer has too many headers")


def _watch(connection: socket.socket, *, is_short: bool) -> None:
    """Let the kernel notice within two seconds that the host is gone without a word.

    While a long request is being sent, its deadline alone ends the wait.
    """
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 1)
    if is_short:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MILLISECONDS)


def _check_line(line: bytearray, bytes_max: int) -> None:
    if len(line) > bytes_max:
        raise ValueError(f"a line is longer than {bytes_max} bytes")
