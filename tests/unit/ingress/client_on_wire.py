"""A client on a connection without a socket: what it sends and what it is answered."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn
from tests.unit.ingress.ok_connections import OkConnections
from uvicorn.server import ServerState

from penstock.ingress.http.client_protocol import ClientProtocol
from penstock.ingress.settings import IngressSettings
from penstock.testing.manual_clock import ManualClock

STALL_SECONDS = 10.0


def post(
    body: bytes,
    *,
    lines: bytes = b"",
    target: bytes = b"/v1/chat/completions",
    version: bytes = b"1.1",
) -> bytes:
    head = b"POST %s HTTP/%s\r\nhost: x\r\ncontent-length: %d\r\n%s\r\n"
    return head % (target, version, len(body), lines) + body


class Wire(asyncio.Transport):
    """Keeps what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_over = self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.is_over = True

    def abort(self) -> None:
        self.is_over = self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_over

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0


class Client:
    """What happens at the other end of the wire."""

    def __init__(self, settings: IngressSettings) -> None:
        self.clock = ManualClock()
        self.connections = OkConnections(settings, self.clock)
        self.wire = Wire()
        self.pages: list[bytes] = []
        config = uvicorn.Config("nothing", http=ClientProtocol, interface="asgi3", log_config=None)
        config.load_app = lambda: self._page  # type: ignore[method-assign]
        config.load()
        state = {"worker": self.connections}
        self.protocol = ClientProtocol(config, ServerState(), state, asyncio.get_running_loop())
        self.protocol.connection_made(self.wire)

    async def send(self, data: bytes) -> None:
        self.protocol.data_received(data)
        for _ in range(20):
            await asyncio.sleep(0)

    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.connections.wheel.advance()

    @property
    def answers(self) -> int:
        return self.wire.written.count(b"HTTP/1.1 200 OK\r\n")

    async def _page(self, scope: Any, receive: Any, send: Any) -> None:
        body, has_more = b"", True
        while has_more:
            message = await receive()
            body += message.get("body", b"")
            has_more = message.get("more_body", False)
        self.pages.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})


def run(test: Callable[[Client], Awaitable[None]]) -> None:
    async def connect() -> None:
        client = Client(IngressSettings(client_stall_seconds=STALL_SECONDS, header_seconds=60.0))
        await test(client)
        client.protocol.connection_lost(None)
        assert client.connections.body_budget.held_bytes == 0

    asyncio.run(connect())
