"""One request to a sandbox host, read and answered over ASGI, within bounds."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from penstock.sandbox.refusals import SandboxRefused

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON: Final = b"application/json"
JSON_LINES: Final = b"application/x-ndjson"
BYTES: Final = b"application/octet-stream"
# A client that is refused before it has sent its body may send so much of it, to get the answer.
_UNREAD_BYTES: Final = 2**20
_UNREAD_SECONDS: Final = 2.0

Wanted = TypeVar("Wanted")


class ClientLeft(Exception):
    """The client has closed its connection before its request was whole."""


class SandboxExchange:
    """`extra` are headers of every answer but the refusal of a wrong token."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, extra: list[Header]) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._extra = extra
        self._has_more = True
        self._is_started = False

    @property
    def method(self) -> str:
        return str(self._scope["method"])

    def header(self, name: bytes) -> bytes:
        """Return a header's value; empty if there is none, or more than one."""
        found = [value for key, value in self._scope["headers"] if key == name]
        return found[0] if len(found) == 1 else b""

    def parts(self) -> list[str]:
        """Return the parts of the path; `%2F` does not divide it. Raise if it is no text."""
        raw: bytes = self._scope["raw_path"]
        try:
            return [unquote_to_bytes(part).decode() for part in raw.split(b"/")[1:]]
        except UnicodeDecodeError:
            raise SandboxRefused("malformed", "The path is not UTF-8.") from None

    async def body(self, bytes_max: int, seconds: float) -> bytes:
        """Read the whole body."""
        length = self.header(b"content-length")
        if length.isdigit() and int(length) > bytes_max:
            raise SandboxRefused("too_large", f"The body is over {bytes_max} bytes.")
        body = bytearray()
        try:
            async with asyncio.timeout(seconds):
                async for part in self._parts_of_body():
                    body += part
                    if len(body) > bytes_max:
                        raise SandboxRefused("too_large", f"The body is over {bytes_max} bytes.")
        except TimeoutError:
            raise SandboxRefused("malformed", "The body came too slowly.") from None
        return bytes(body)

    async def read(self, kind: type[Wanted], bytes_max: int, seconds: float) -> Wanted:
        """Read a body of JSON."""
        body = await self.body(bytes_max, seconds)
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as wrong:
            raise SandboxRefused("malformed", f"The body is wrong: {wrong}.") from None

    async def answer(self, body: bytes, status: int = 200, media: bytes = JSON) -> None:
        """Send a whole answer."""
        await self._start(status, media, [(b"content-length", b"%d" % len(body))])
        await self._send({"type": "http.response.body", "body": body})

    async def stream(self, lines: AsyncIterator[bytes]) -> None:
        """Send lines as they come."""
        await self._start(200, JSON_LINES, [])
        async for line in lines:
            await self._send({"type": "http.response.body", "body": line, "more_body": True})
        await self._send({"type": "http.response.body", "body": b""})

    async def refuse(self, refused: SandboxRefused) -> None:
        """Send a refusal; close the connection where much of the body was not read."""
        if self._is_started:
            raise refused
        headers = [] if await self._is_body_read() else [(b"connection", b"close")]
        if refused.status == 401:
            self._extra = [(b"www-authenticate", b"Bearer")]
        body = msgspec.json.encode(refused.body)
        headers.append((b"content-length", b"%d" % len(body)))
        await self._start(refused.status, JSON, headers)
        await self._send({"type": "http.response.body", "body": body})

    async def _start(self, status: int, media: bytes, headers: list[Header]) -> None:
        self._is_started = True
        headers = [(b"content-type", media), *headers, *self._extra]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _is_body_read(self) -> bool:
        """Read what is left of the body, within bounds; return whether that was all."""
        size = 0
        try:
            async with asyncio.timeout(_UNREAD_SECONDS):
                async for part in self._parts_of_body():
                    size += len(part)
                    if size > _UNREAD_BYTES:
                        return False
        except TimeoutError:
            return False
        return True

    async def _parts_of_body(self) -> AsyncIterator[bytes]:
        while self._has_more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            self._has_more = message.get("more_body", False)
            yield message.get("body", b"")
