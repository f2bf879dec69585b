"""One connection, without a network: what comes in on it, and how long its client has."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from tests.unit.ingress.ok_connections import OkConnections
from uvicorn.server import ServerState

from penstock.ingress.http.client_protocol import ClientProtocol
from penstock.ingress.settings import IngressSettings
from penstock.testing.manual_clock import ManualClock

STALL_SECONDS = 10.0
PAGE = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
UPGRADE = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n"


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


@pytest.mark.parametrize(
    "sent",
    [PAGE, PAGE * 3, PAGE[:-5], post(b"known"), post(b"ab")[:-1], post(b"x", lines=b"a: b\r\n")],
    ids=["page", "pages", "half a head", "known head", "half a body", "other head"],
)
def test_time_of_who_does_not_read_runs_on_whatever_it_sends(sent: bytes) -> None:
    """What was in the kernel's buffers comes in even from a client that is not read from."""

    async def test(client: Client) -> None:
        await client.send(post(b"first"))
        await client.send(PAGE * 2)
        assert client.answers == 3
        client.protocol.pause_writing()
        client.wait(STALL_SECONDS - 1)
        await client.send(sent)
        client.wait(0.5)
        assert not client.wire.is_over
        client.wait(1)
        assert client.wire.is_aborted

    run(test)


def test_who_has_read_may_take_its_time_again() -> None:
    async def test(client: Client) -> None:
        await client.send(PAGE)
        client.protocol.pause_writing()
        client.wait(STALL_SECONDS - 1)
        client.protocol.resume_writing()
        client.wait(STALL_SECONDS)
        assert not client.wire.is_over
        await client.send(PAGE)
        assert client.answers == 2

    run(test)


@pytest.mark.parametrize("cut", [0, 1, 30, 150])
@pytest.mark.parametrize("before", [b"", PAGE, post(b"first"), PAGE + post(b"first") + PAGE])
def test_request_that_asks_for_another_protocol_is_read_as_any(before: bytes, cut: int) -> None:
    """Alone or behind others, in one read or two: its body is taken, and it is the last."""

    async def test(client: Client) -> None:
        data = before + post(b"hello", lines=UPGRADE)
        for part in (data[:cut], data[cut:]) if cut else (data,):
            await client.send(part)
        assert client.connections.bodies[-1] == b"hello"
        assert client.answers == before.count(b"host: x") + 1
        assert client.wire.written.count(b"connection: close\r\n") == 1
        assert client.wire.is_over

    run(test)


@pytest.mark.parametrize("before", [b"", PAGE])
def test_page_that_is_asked_for_another_protocol_gets_its_body(before: bytes) -> None:
    async def test(client: Client) -> None:
        await client.send(before + post(b"hello", target=b"/v1/batches", lines=UPGRADE))
        assert client.pages[-1] == b"hello"
        assert client.wire.is_over

    run(test)


@pytest.mark.parametrize("version", [b"1.0", b"1.1", b"2.0"])
@pytest.mark.parametrize("more", [b"", b"proxy-connection: keep-alive\r\n"])
def test_of_many_that_ask_for_another_protocol_the_first_is_served(
    version: bytes, more: bytes
) -> None:
    """None is read more than twice: else a read full of them would be copied for each."""

    async def test(client: Client) -> None:
        await client.send(post(b"hello", lines=UPGRADE + more, version=version) * 2000)
        assert client.connections.bodies == [b"hello"]
        assert client.answers == 1
        assert client.wire.is_over

    run(test)


def test_tunnel_is_not_read_twice() -> None:
    async def test(client: Client) -> None:
        await client.send(PAGE + b"CONNECT /healthz HTTP/1.1\r\nhost: x\r\n\r\n" + PAGE)
        assert client.answers == 2
        assert client.wire.is_over

    run(test)


@pytest.mark.parametrize("first", [PAGE, post(b"first")], ids=["page", "hot"])
@pytest.mark.parametrize("stray", [b"\x00", b"GARBAGE\r\n", PAGE[:10] + b"\x00"])
def test_what_came_before_a_stray_byte_is_answered_and_then_closed(
    first: bytes, stray: bytes
) -> None:
    async def test(client: Client) -> None:
        await client.send(first * 3 + stray)
        assert client.answers == 3
        assert client.wire.written.count(b"HTTP/1.1 ") == 3
        assert client.wire.is_over

    run(test)


def test_request_that_breaks_behind_others_is_dropped_and_they_are_answered() -> None:
    chunked = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"

    async def test(client: Client) -> None:
        await client.send(post(b"a") + PAGE + post(b"b") + chunked + b"3\r\nabcX")
        assert client.answers == 3
        assert client.connections.bodies == [b"a", b"b"]
        assert client.wire.is_over

    run(test)


def test_page_that_is_refused_while_its_body_comes_is_told_why() -> None:
    async def test(client: Client) -> None:
        head = b"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n"
        await client.send(head + b"x" * 1000)
        for _ in range(3):
            client.wait(6)
        assert client.connections.refused == [408]
        assert client.wire.is_over
        assert client.pages == []

    run(test)


def test_bodies_of_pages_count_until_they_are_read() -> None:
    async def test(client: Client) -> None:
        budget = client.connections.body_budget
        head = b"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n"
        client.protocol.data_received(head + b"x" * 60_000)
        assert budget.held_bytes == 60_000
        await client.send(b"x" * 40_000)
        assert client.answers == 1
        assert budget.held_bytes == 0

    run(test)
