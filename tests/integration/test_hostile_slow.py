"""Clients that are slow, silent, greedy or very many: each is cut off in time, the others are served.

The limits are those of a gateway as it comes, but for the times, which are short.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from tests.integration.gateway_cell import CHAT, CellFactory, chat_body
from tests.integration.gateway_process import eventually
from tests.integration.hostile_caller import HTTP, PLAIN_BODY, V1, Caller
from tests.integration.hostile_cell import HostileCell, hostile_cell
from tests.integration.hostile_crowd import Ending, connected, drip, flood
from tests.integration.hostile_heads import chunked, head
from tests.integration.hostile_json import text
from tests.integration.hostile_shot import Shot, read_answer

_MB = 2**20
_HEADER_SECONDS = 1.0
_STALL_SECONDS = 2.0
_KEEP_ALIVE_SECONDS = 3
# One read of the server, and what the kernel holds on the way.
_TAKEN_MAX = 4 * _MB
_SLACK_SECONDS = 4.0


@pytest.fixture(scope="module")
def hostile(cells: CellFactory) -> Iterator[HostileCell]:
    settings = {
        "ingress.header_seconds": _HEADER_SECONDS,
        "ingress.client_stall_seconds": _STALL_SECONDS,
        "ingress.keep_alive_seconds": _KEEP_ALIVE_SECONDS,
        "ingress.body_bytes_max": 32 * _MB,
        "engine.first_byte_seconds": 30,
        "engine.between_bytes_seconds": 30,
        "engine.total_seconds": 60,
        "engine.answer_bytes_max": 64 * _MB,
        "engine.event_bytes_max": 4 * _MB,
    }
    with hostile_cell(cells, settings) as hostile:
        yield hostile


@pytest.fixture(scope="module")
def caller(hostile: HostileCell) -> Caller:
    return Caller(hostile.cell.account, hostile.cell.key)


@pytest.fixture(autouse=True)
def _leaves_nothing(hostile: HostileCell) -> Iterator[None]:
    """After each test: nobody connected, nothing in flight, and it serves."""
    yield
    hostile.traffic.close()
    hostile.wait_until_quiet()
    hostile.check_that_it_serves()
    hostile.traffic.close()


def _all(
    hostile: HostileCell, count: int, one: Callable[[int], Coroutine[Any, Any, Ending]]
) -> list[Ending]:
    async def together() -> list[Ending]:
        return list(await asyncio.gather(*(one(number) for number in range(count))))

    return hostile.traffic.run(together())


def _post_head(caller: Caller, *lines: bytes, target: bytes = V1) -> bytes:
    return head(b"POST", target, HTTP, b"host: x", caller.key_line, *lines)


def _open_head(caller: Caller) -> bytes:
    """A head whose end is still to come."""
    return _post_head(caller)[:-2]


# Sizes


_FLOODS = {
    "many header lines": (b"", b"x-a: b\r\n"),
    "one endless header value": (b"x-a: ", b"y" * 64),
    "one endless header name": (b"", b"n" * 64),
}


@pytest.mark.parametrize("kind", _FLOODS)
def test_431_100_mb_of_headers(hostile: HostileCell, caller: Caller, kind: str) -> None:
    start, piece = _FLOODS[kind]
    port = hostile.cell.gateway.port
    endings = _all(hostile, 4, lambda _: flood(port, _open_head(caller) + start, piece, 100 * _MB))
    for ending in endings:
        assert ending.status in {431, 0}
        assert ending.bytes_taken < _TAKEN_MAX
    assert 431 in {ending.status for ending in endings}


def test_431_100_mb_of_target(hostile: HostileCell) -> None:
    port = hostile.cell.gateway.port
    ending = hostile.traffic.run(flood(port, b"GET /v1/models?", b"a" * 64, 100 * _MB))
    assert ending.status in {431, 0}
    assert ending.bytes_taken < _TAKEN_MAX


@pytest.mark.parametrize("target", [V1, b"/v1/models"])
def test_100_mb_of_trailers(hostile: HostileCell, caller: Caller, target: bytes) -> None:
    port = hostile.cell.gateway.port
    start = _post_head(caller, b"transfer-encoding: chunked", target=target)
    start += chunked(PLAIN_BODY)[:-2]
    for piece in (b"x-a: b\r\n", b"y" * 64):
        ending = hostile.traffic.run(flood(port, start, piece, 100 * _MB))
        assert ending.bytes_taken < _TAKEN_MAX, piece


@pytest.mark.parametrize("target", [V1, b"/v1/models"])
def test_100_mb_of_chunk_extension(hostile: HostileCell, caller: Caller, target: bytes) -> None:
    port = hostile.cell.gateway.port
    start = _post_head(caller, b"transfer-encoding: chunked", target=target) + b"5;a="
    ending = hostile.traffic.run(flood(port, start, b"b" * 64, 100 * _MB))
    assert ending.bytes_taken < _TAKEN_MAX


def test_headers_behind_a_request_that_is_served(hostile: HostileCell, caller: Caller) -> None:
    port = hostile.cell.gateway.port
    stalled = chat_body(script={"stall_before_head": 5})
    start = caller.post("", V1, text(stalled)).data + _open_head(caller)
    ending = hostile.traffic.run(flood(port, start, b"x-a: b\r\n", 100 * _MB))
    assert ending.bytes_taken < _TAKEN_MAX


def test_413_bodies_of_more_than_32_mb(hostile: HostileCell, caller: Caller) -> None:
    port = hostile.cell.gateway.port
    said = _post_head(caller, b"content-length: %d" % (100 * _MB))
    streamed = _post_head(caller, b"transfer-encoding: chunked")
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    endings = _all(hostile, 3, lambda _: flood(port, said, b"x" * 64, 100 * _MB))
    assert all(ending.bytes_taken < _TAKEN_MAX for ending in endings)
    endings += _all(hostile, 3, lambda _: flood(port, streamed, chunk, 100 * _MB))
    assert all(ending.bytes_taken < 32 * _MB + _TAKEN_MAX for ending in endings)
    assert {ending.status for ending in endings} <= {413, 0}
    assert 413 in {ending.status for ending in endings}


def test_a_body_of_32_mb_for_a_page_is_not_kept(hostile: HostileCell, caller: Caller) -> None:
    port = hostile.cell.gateway.port
    start = _post_head(caller, b"transfer-encoding: chunked", target=b"/v1/models")
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    endings = _all(hostile, 3, lambda _: flood(port, start, chunk, 200 * _MB))
    assert all(ending.bytes_taken < 32 * _MB + _TAKEN_MAX for ending in endings)


def test_a_body_in_chunks_of_one_byte(hostile: HostileCell, caller: Caller) -> None:
    body = text(chat_body())[:-1] + b"," + text({"x": "y" * 100_000})[1:]
    data = _post_head(caller, b"transfer-encoding: chunked") + chunked(body, "one by one")
    shots = [Shot("one byte chunks", data)] * 4
    assert hostile.traffic.fire(shots) == ["200"] * 4


# Times


def test_half_sent_headers_are_closed_in_time(hostile: HostileCell, caller: Caller) -> None:
    port = hostile.cell.gateway.port
    starts = [_open_head(caller), b"P", b"POST /v1", b"\r\n", b"GET / HTTP/1.1\r\nhost"]
    endings = _all(hostile, 300, lambda number: drip(port, starts[number % 5], [], 0))
    assert {ending.status for ending in endings} == {408}
    assert max(ending.seconds for ending in endings) < _HEADER_SECONDS + _SLACK_SECONDS


def test_headers_one_byte_at_a_time_are_closed_in_time(
    hostile: HostileCell, caller: Caller
) -> None:
    """Each byte alone is in time; all together are not."""
    port = hostile.cell.gateway.port
    drops = [b"x"] * 100
    endings = _all(hostile, 100, lambda _: drip(port, _open_head(caller), drops, 0.2))
    assert {ending.status for ending in endings} <= {408, 0}
    assert max(ending.seconds for ending in endings) < _HEADER_SECONDS + _SLACK_SECONDS


def test_connections_that_say_nothing_are_closed_in_time(hostile: HostileCell) -> None:
    port = hostile.cell.gateway.port
    endings = _all(hostile, 300, lambda _: drip(port, b"", [], 0))
    assert {ending.status for ending in endings} == {0}
    assert max(ending.seconds for ending in endings) < _HEADER_SECONDS + _SLACK_SECONDS


def test_slow_bodies_are_refused_while_others_are_served(
    hostile: HostileCell, caller: Caller
) -> None:
    """A body at one byte a second, and one that never comes, on 400 connections."""
    port = hostile.cell.gateway.port
    length = b"content-length: 5000"
    starts = [
        _post_head(caller, length),
        _post_head(caller, length, target=caller.path(f"run/{CHAT}")),
        _post_head(caller, b"transfer-encoding: chunked") + b"1388\r\n",
        _post_head(caller, length, b"expect: 100-continue"),
    ]

    async def slowly(number: int) -> Ending:
        drops = [b" "] * 20 if number % 2 else []
        return await drip(port, starts[number % 4], drops, 1.0)

    async def crowd() -> list[Ending]:
        return list(await asyncio.gather(*(slowly(number) for number in range(400))))

    slow = asyncio.run_coroutine_threadsafe(crowd(), hostile.traffic.loop)
    eventually(lambda: hostile.cell.gateway.metric("penstock_client_connections") >= 400)
    while not slow.done():
        began = time.monotonic()
        hostile.check_that_it_serves()
        assert time.monotonic() - began < 3
        time.sleep(0.05)
    endings = slow.result()
    assert {ending.status for ending in endings} == {408}
    assert all(4 < ending.seconds < 12 for ending in endings)


def test_a_late_body_for_a_page_and_then_silence(hostile: HostileCell, caller: Caller) -> None:
    """The answer is out before the body; the connection is idle after it, and closed as one."""
    port = hostile.cell.gateway.port
    start = head(b"GET", b"/healthz", HTTP, b"host: x", b"content-length: 5")
    endings = _all(hostile, 20, lambda _: drip(port, start, [b"12345"], 0.3))
    assert {ending.status for ending in endings} == {200}
    assert max(ending.seconds for ending in endings) < _KEEP_ALIVE_SECONDS + _SLACK_SECONDS


# Numbers


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
        began, taken = time.monotonic(), 0
        async with connected(hostile.cell.gateway.port, receive_bytes=4096) as (_, writer):
            writer.transport.set_write_buffer_limits(high=0)
            try:
                async with asyncio.timeout(20):
                    while taken < 100 * _MB:
                        writer.write(piece * 500)
                        await writer.drain()
                        taken += len(piece) * 500
            except ConnectionError:
                pass
        return taken, time.monotonic() - began

    taken, seconds = hostile.traffic.run(pour())
    assert taken < 16 * _MB
    assert seconds < _STALL_SECONDS + _SLACK_SECONDS
    assert hostile.vitals().rss - before < 48 * _MB


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
        seconds = 2 * _STALL_SECONDS + _SLACK_SECONDS
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

    _all(hostile, 100, leave)
    eventually(lambda: all(engine.state().running == 0 for engine in hostile.engines), 2)


_FAILURES = (
    {"status": 400}, {"status": 503}, {"cut_before_head": True}, {"cut_after": 2}, {"garbage": True},
)  # fmt: skip


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


def test_slow_and_greedy_clients_leave_the_gateway_as_it_was(
    hostile: HostileCell, capsys: pytest.CaptureFixture[str]
) -> None:
    left = hostile.check_aftermath(rss_growth_max=256 * _MB)
    with capsys.disabled():
        print(f"\nslow and greedy clients: {left}")
