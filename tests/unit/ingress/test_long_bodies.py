"""However a body comes, and whichever way it is read: it is taken as it was sent, or not at all."""

import asyncio
import random
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
import uvicorn
import uvloop
from tests.unit.ingress.ok_connections import OkConnections
from uvicorn.server import ServerState

from penstock.clock import SystemClock
from penstock.ingress.http.body_budget import HeldBody
from penstock.ingress.http.client_protocol import LONG_BYTES, ClientProtocol
from penstock.ingress.settings import IngressSettings

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
ANSWER_END = b"\r\n\r\nok"


class Streams:
    """A client's connection to a server."""

    def __init__(
        self, connections: OkConnections, reader: asyncio.StreamReader, to: asyncio.StreamWriter
    ) -> None:
        self.connections = connections
        self.reader = reader
        self.to = to

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.to.write(part)
            await self.to.drain()
            # So that what comes next is another read.
            await asyncio.sleep(0.002)

    async def until_answered(self, count: int = 1) -> None:
        for _ in range(count):
            await self.reader.readuntil(ANSWER_END)


@asynccontextmanager
async def connected(settings: IngressSettings) -> AsyncIterator[Streams]:
    connections = OkConnections(settings, SystemClock())
    connections.wheel.start()
    config = uvicorn.Config("nothing", http=ClientProtocol, log_config=None)
    config.load_app = lambda: None  # type: ignore[method-assign]
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()

    def protocol() -> ClientProtocol:
        return ClientProtocol(config, state, {"worker": connections}, loop)

    server = await loop.create_server(protocol, "127.0.0.1", 0)
    reader, to = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield Streams(connections, reader, to)
    finally:
        to.close()
        server.close()
        await eventually(lambda: connections.connections == 0)
        connections.wheel.stop()
        assert connections.body_budget.held_bytes == 0


async def eventually(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not is_so():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


def run(test: Callable[[Streams], Awaitable[None]], **settings: float) -> None:
    async def connect() -> None:
        async with (
            asyncio.timeout(30),
            connected(msgspec.convert(settings, IngressSettings)) as streams,
        ):
            await test(streams)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(connect())


def body_of(length: int, seed: int = 0) -> bytes:
    return random.Random(seed).randbytes(length)


def cut(data: bytes, dice: random.Random, pieces: int) -> list[bytes]:
    ends = sorted(dice.randrange(len(data)) for _ in range(pieces - 1))
    starts = [0, *ends]
    return [data[a:b] for a, b in zip(starts, [*ends, len(data)], strict=True) if a < b]


@pytest.mark.parametrize("seed", range(12))
def test_bodies_of_all_lengths_come_whole_however_they_are_cut(seed: int) -> None:
    dice = random.Random(seed)
    around = (1, 1000, 16 * 1024, LONG_BYTES, 256_000, 600_000, 1_500_000)
    bodies = [body_of(max(0, dice.choice(around) + dice.randint(-90, 90)), n) for n in range(8)]

    async def test(streams: Streams) -> None:
        for body in bodies:
            request = HEAD % len(body) + body
            await streams.send(*cut(request, dice, dice.choice((1, 1, 2, 5))))
            await streams.until_answered()

    run_and_compare(test, bodies)


def test_requests_behind_a_long_body_are_served_in_order() -> None:
    lengths = (300_000, 10, 300_000, 100_000, 0, 70_000, 20, 1_000_000, 5)
    bodies = [body_of(length, length) for length in lengths]

    async def test(streams: Streams) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(streams.send(b"".join(HEAD % len(body) + body for body in bodies)))
            await streams.until_answered(len(bodies))

    run_and_compare(test, bodies)


def run_and_compare(test: Callable[[Streams], Awaitable[None]], bodies: list[bytes]) -> None:
    async def compared(streams: Streams) -> None:
        await test(streams)
        assert streams.connections.bodies == bodies
        assert all(type(body) is bytes for body in streams.connections.bodies)

    run(compared)


def test_long_body_counts_as_it_comes_until_it_is_read() -> None:
    async def test(streams: Streams) -> None:
        budget = streams.connections.body_budget
        await streams.send(HEAD % 1_000_000 + b"x" * 1000)
        await eventually(lambda: budget.held_bytes == 1000)
        await streams.send(b"x" * 5000)
        await eventually(lambda: budget.held_bytes == 6000)
        await streams.send(b"x" * 994_000)
        await streams.until_answered()
        assert budget.held_bytes == 0

    run(test)


@pytest.mark.parametrize("is_first", [True, False])
def test_client_that_leaves_in_the_middle_takes_all_with_it(is_first: bool) -> None:
    async def test(streams: Streams) -> None:
        if not is_first:
            await streams.send(HEAD % 100_000 + body_of(100_000))
            await streams.until_answered()
        await streams.send(HEAD % 1_000_000 + b"x" * 100_000)
        await eventually(lambda: streams.connections.body_budget.held_bytes == 100_000)
        streams.to.transport.abort()
        await eventually(lambda: streams.connections.connections == 0)
        assert len(streams.connections.bodies) == (0 if is_first else 1)

    run(test)


def test_client_that_ends_its_side_in_the_middle_is_closed() -> None:
    async def test(streams: Streams) -> None:
        await streams.send(HEAD % 1_000_000 + b"x" * 100_000)
        streams.to.write_eof()
        assert await streams.reader.read() == b""

    run(test)


def test_bodies_that_are_too_much_together_are_refused_as_they_come() -> None:
    async def test(streams: Streams) -> None:
        others = HeldBody("sk-others")
        streams.connections.body_budget.hold(others, 250_000)
        await streams.send(HEAD % 150_000 + b"x" * 20_000, b"x" * 50_000)
        assert b" 503 " in await streams.reader.readline()
        await streams.reader.read()
        streams.connections.body_budget.release(others)
        assert streams.connections.bodies == []

    run(test, bodies_bytes_max=300_000, bodies_share_unknown_max=1)


def test_head_that_comes_alone_is_known_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many clients write head and body apart."""
    bodies = [body_of(length, length) for length in (2000, 3000, 500_000, 20_000, 1, 70_000)]
    parsed: list[int] = []
    begin = ClientProtocol.on_message_begin

    def count(protocol: ClientProtocol) -> None:
        parsed.append(1)
        begin(protocol)

    monkeypatch.setattr(ClientProtocol, "on_message_begin", count)

    async def test(streams: Streams) -> None:
        for body in bodies:
            await streams.send(HEAD % len(body), body)
            await streams.until_answered()
        assert len(parsed) == 1

    run_and_compare(test, bodies)


def test_what_came_with_a_known_head_counts_for_the_rate() -> None:
    async def test(streams: Streams) -> None:
        await streams.send(HEAD % 70_000 + body_of(70_000))
        await streams.until_answered()
        await streams.send(HEAD % 70_000 + b"x" * 10_000)
        # Nothing has come since, in a part of the first window.
        await asyncio.sleep(0.3)
        await streams.send(b"x" * 60_000)
        await streams.until_answered()

    run(test, body_grace_seconds=0.5, body_bytes_per_second_min=10_000)


def test_slow_long_body_is_refused() -> None:
    async def test(streams: Streams) -> None:
        await streams.send(HEAD % 1_000_000 + b"x" * 1000)
        assert b" 408 " in await streams.reader.readline()
        assert streams.connections.body_budget.held_bytes == 0

    run(test, body_grace_seconds=0.2, body_bytes_per_second_min=100_000)


def test_bytes_that_came_at_once_do_not_pay_for_silence() -> None:
    async def test(streams: Streams) -> None:
        await streams.send(HEAD % 1_000_000 + b"x" * 999_998)
        began = asyncio.get_running_loop().time()
        assert b" 408 " in await streams.reader.readline()
        # The window in which they came, and one of silence.
        assert asyncio.get_running_loop().time() - began < 2

    run(test, body_grace_seconds=0.2, body_bytes_per_second_min=1000)


def test_body_that_takes_too_long_in_all_is_refused_whatever_its_rate() -> None:
    async def test(streams: Streams) -> None:
        await streams.send(HEAD % 1_000_000 + b"x" * 1000)

        async def go_on() -> None:
            while True:
                await streams.send(b"x" * 100)
                await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as group:
            going_on = group.create_task(go_on())
            assert b" 408 " in await streams.reader.readline()
            going_on.cancel()

    run(test, body_grace_seconds=0.2, body_bytes_per_second_min=1000, body_seconds_max=1)


def test_body_in_tiny_chunks_takes_no_more_than_its_own_size() -> None:
    """As a list of parts, two million chunks of two bytes took 60 times their own size."""

    async def test(streams: Streams) -> None:
        chunked = (
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        chunks = b"2\r\nab\r\n" * 100_000
        tracemalloc.start()
        await streams.send(chunked, chunks)
        await eventually(lambda: streams.connections.body_budget.held_bytes == 200_000)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert held < 600_000 + len(chunks)
        await streams.send(b"0\r\n\r\n")
        await streams.until_answered()
        assert streams.connections.bodies == [b"ab" * 100_000]

    run(test)
