"""Reads HTTP/1.1 requests of the scripted engine's clients, and sends any bytes at all.

A request runs as a task that is cancelled when the client leaves. Unlike a web framework, this
class lets the engine cut, reset, split and garble what it sends.
"""

import asyncio
import logging
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import cast

import httptools
import msgspec

_log = logging.getLogger(__name__)
_FLUSH_SECONDS_MAX = 5.0


class HttpRequest(msgspec.Struct, frozen=True):
    """A whole request, body included."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    keep_alive: bool


class HttpConnection(asyncio.Protocol):
    """Parses requests and runs `serve` for each, one after the other."""

    def __init__(
        self,
        serve: Callable[[HttpRequest, "HttpConnection"], Awaitable[None]],
        group: asyncio.TaskGroup,
        opened: set["HttpConnection"],
    ) -> None:
        self._serve = serve
        self._group = group
        self._opened = opened
        self._parser = httptools.HttpRequestParser(self)
        self._pending: deque[HttpRequest] = deque()
        self._task: asyncio.Task[None] | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self.is_draining = False

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._opened.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n")
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._opened.discard(self)
        self._may_write.set()
        self._pending.clear()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._may_write.clear()

    def resume_writing(self) -> None:
        self._may_write.set()

    # httptools' side

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._headers.get("expect", "").lower() == "100-continue":
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        request = HttpRequest(
            method=self._parser.get_method().decode(),
            path=self._url.decode("latin-1"),
            headers=self._headers,
            body=b"".join(self._body),
            keep_alive=self._parser.should_keep_alive(),
        )
        self._pending.append(request)
        if self._task is None:
            self._task = self._group.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self._pending and not self.transport.is_closing():
                request = self._pending.popleft()
                await self._guarded(request)
                if self.is_draining or not request.keep_alive:
                    self.transport.close()
        finally:
            self._task = None

    async def _guarded(self, request: HttpRequest) -> None:
        try:
            await self._serve(request, self)
        except Exception:  # noqa: BLE001 - the top of the loop
            # Fuzzed requests reach this engine; one that it cannot handle must not end it.
            _log.exception("request failed", extra={"action": "request_failed"})
            self.transport.write(b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\n\r\n")
            self.transport.close()

    # the engine's side

    @property
    def is_idle(self) -> bool:
        return self._task is None

    def write(self, data: bytes) -> None:
        self.transport.write(data)

    async def drain(self) -> None:
        """Wait while the client reads more slowly than the engine writes."""
        if not self._may_write.is_set():
            await self._may_write.wait()

    async def flush(self) -> None:
        """Wait until the kernel has all written bytes, so that a cut comes after them."""
        waited = 0.0
        while self.transport.get_write_buffer_size() and waited < _FLUSH_SECONDS_MAX:
            await asyncio.sleep(0.001)
            waited += 0.001
        await asyncio.sleep(0.005)

    async def reset(self) -> None:
        """Cut the connection: the client gets the bytes written so far, then a reset."""
        await self.flush()
        self._task = None
        linger = struct.pack("ii", 1, 0)
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.transport.abort()

    async def close(self) -> None:
        """Close the connection in order, even if the answer is not complete."""
        await self.flush()
        self._task = None
        self.transport.close()
