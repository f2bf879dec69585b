"""Clients that are very many, or ask for much and never read it: nothing piles up, none stays."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cells.gateway_cell import CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.hostile.hostile_caller import PLAIN_BODY, V1, Caller
from tests.integration.hostile.hostile_cell import PATIENT, STALL_SECONDS, HostileCell, hostile_cell
from tests.integration.hostile.hostile_crowd import Ending, all_of, connected
from tests.integration.hostile.hostile_json import text
from tests.integration.hostile.hostile_shot import Shot, read_answer

_MB = 2**20
_SLACK_SECONDS = 6.0
_FIN_WAIT_1 = "04"


@pytest.fixture(scope="module")
def hostile(cells: CellFactory) -> Iterator[HostileCell]:
    with hostile_cell(cells, PATIENT) as hostile:
        yield hostile


@pytest.fixture(scope="module")
def caller(hostile: HostileCell) -> Caller:
    return Caller(hostile.cell.account, hostile.cell.key)


@pytest.fixture(autouse=True)
def _leaves_nothing(hostile: HostileCell) -> Iterator[None]:
    """After each test: nobody connected, nothing in flight, and it serves."""
    yield
    hostile.check_that_it_is_over()


def test_two_thousand_idle_connections(hostile: HostileCell) -> None:
    gateway = hostile.cell.gateway

    async def crowd(release: asyncio.Event) -> None:
        async def idle() -> None:
            async with connected(gateway.port) as (_, writer):
                writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                await release.wait()

        async with asyncio.TaskGroup() as group:
            for _ in range(2000):
                group.create_task(idle())

    release = asyncio.Event()
    loop = hostile.traffic.loop
    running = asyncio.run_coroutine_threadsafe(crowd(release), loop)
    eventually(lambda: gateway.metric("penstock_client_connections") >= 2000, 20)
    hostile.check_that_it_serves()
    loop.call_soon_threadsafe(release.set)
    running.result(20)
    eventually(lambda: gateway.metric("penstock_client_connections") <= 2)


def test_pipelined_requests_are_all_answered_in_order(hostile: HostileCell, caller: Caller) -> None:
    shots = [
        caller.get("pipelined", b"/healthz"),
        caller.post("pipelined", V1, b"{}"),
        caller.post("pipelined", V1, PLAIN_BODY),
        caller.get("pipelined", b"/nothing"),
    ]
    expected = [200, 400, 200, 404]

    async def ask() -> list[int]:
        async with connected(hostile.cell.gateway.port) as (reader, writer):
            writer.write(b"".join(shot.data for shot in shots) * 500)
            return [(await read_answer(reader)).status for _ in range(2000)]

    assert hostile.traffic.run(ask()) == expected * 500


@pytest.mark.parametrize("target", [b"/healthz", b"/v1/chat/completions", b"/openapi.json"])
def test_a_pipelined_flood_that_is_never_read(
    hostile: HostileCell, caller: Caller, target: bytes
) -> None:
    """What is neither read nor answered must not pile up here."""
    before = hostile.vitals().rss
    is_hot = target == V1
    piece = (caller.post("", V1, b"{}") if is_hot else caller.get("", target)).data

    async def pour() -> tuple[int, float]:
        """What was taken, and how long the gateway then waited before it hung up."""
        moved_at, taken = time.monotonic(), 0
        async with connected(hostile.cell.gateway.port, receive_bytes=4096) as (_, writer):
            writer.transport.set_write_buffer_limits(high=0)
            try:
                # Long enough for a slow machine to answer all that fits into buffers.
                async with asyncio.timeout(45):
                    while taken < 100 * _MB:
                        writer.write(piece * 500)
                        await writer.drain()
                        moved_at, taken = time.monotonic(), taken + len(piece) * 500
            except ConnectionError:
                pass
            # All that was unread is gone, from the kernel too.
            assert unsent_by_closed(hostile.cell.gateway.port) == 0
        return taken, time.monotonic() - moved_at

    taken, seconds = hostile.traffic.run(pour())
    assert taken < 16 * _MB
    assert seconds < STALL_SECONDS + _SLACK_SECONDS
    assert hostile.vitals().rss - before < 48 * _MB


def unsent_by_closed(port: int) -> int:
    """How many bytes the kernel holds for clients of connections that the gateway has closed."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(
        int(row[4].partition(":")[0], 16)
        for row in rows
        if row[1].endswith(f":{port:04X}") and row[3] == _FIN_WAIT_1
    )


_UNREAD = {
    "a stream": (b"", chat_body(script={"tokens": 100_000}, stream=True)),
    "a stream to be closed": (
        b"connection: close",
        chat_body(script={"tokens": 100_000}, stream=True),
    ),
    "a whole answer": (b"", chat_body(script={"huge_line": 8 * _MB})),
    "a whole answer to be closed": (
        b"connection: close",
        chat_body(script={"huge_line": 8 * _MB}),
    ),
}


@pytest.mark.parametrize("kind", _UNREAD)
def test_answers_that_are_never_read_are_dropped(
    hostile: HostileCell, caller: Caller, kind: str
) -> None:
    line, body = _UNREAD[kind]
    data = caller.post("", V1, text(body), *filter(None, [line])).data
    gateway = hostile.cell.gateway

    async def ask(release: asyncio.Event) -> None:
        async def never_read() -> None:
            async with connected(gateway.port, receive_bytes=4096) as (reader, writer):
                writer.transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(data)
                await release.wait()
                del reader

        async with asyncio.TaskGroup() as group:
            for _ in range(8):
                group.create_task(never_read())

    release = asyncio.Event()
    loop = hostile.traffic.loop
    running = asyncio.run_coroutine_threadsafe(ask(release), loop)
    try:
        eventually(lambda: gateway.metric("penstock_client_connections") >= 8)
        seconds = 2 * STALL_SECONDS + _SLACK_SECONDS
        eventually(lambda: gateway.metric("penstock_client_connections") == 0, seconds)
        eventually(lambda: all(engine.state().running == 0 for engine in hostile.engines), 2)
    finally:
        loop.call_soon_threadsafe(release.set)
        running.result(20)


def test_many_clients_that_leave_in_mid_stream(hostile: HostileCell, caller: Caller) -> None:
    body = text(chat_body(script={"tokens": 1000, "interval": 0.05}, stream=True))
    plain = caller.post("", V1, body).data
    behind = plain + caller.post("", V1, PLAIN_BODY).data

    async def leave(number: int) -> Ending:
        async with connected(hostile.cell.gateway.port) as (reader, writer):
            writer.write(behind if number % 2 else plain)
            await reader.readuntil(b"data: ")
        return Ending()

    all_of(hostile.traffic, 100, leave)
    eventually(lambda: all(engine.state().running == 0 for engine in hostile.engines), 2)


_FAILURES: list[dict[str, Any]] = [
    {"status": 400},
    {"status": 503},
    {"cut_before_head": True},
    {"cut_after": 2},
    {"garbage": True},
]


def test_large_requests_that_fail_leave_no_body_behind(
    hostile: HostileCell, caller: Caller
) -> None:
    """Refused by the engine, lost with it, given up by the caller, or never complete."""
    filler = b"," + text({"x": "y" * (6 * _MB)})[1:]
    bodies = [text(chat_body(script=script))[:-1] + filler for script in _FAILURES]
    shots = [caller.post("large", V1, body) for body in bodies]
    slow = text(chat_body(script={"stall_before_head": 3}))[:-1] + filler
    whole = caller.post("large", V1, slow).data
    shots += [Shot("large", whole, leaves_after=0.3), Shot("large", whole[:-9], leaves_after=0.3)]
    shots.append(caller.post("large", V1, b'{"model":' + filler))
    # The first rounds find out how much the allocator keeps for itself.
    for _ in range(2):
        hostile.traffic.fire(shots)
    hostile.traffic.close()
    before = hostile.vitals().rss
    for _ in range(5):
        hostile.traffic.fire(shots)
    hostile.traffic.close()
    # 240 MB went through.
    assert hostile.vitals().rss - before < 64 * _MB


def test_a_crowd_leaves_the_gateway_as_it_was(
    hostile: HostileCell, capsys: pytest.CaptureFixture[str]
) -> None:
    left = hostile.check_aftermath(rss_growth_max=256 * _MB)
    with capsys.disabled():
        print(f"\na crowd: {left}")
