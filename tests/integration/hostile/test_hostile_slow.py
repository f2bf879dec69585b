"""Clients that are slow, silent or greedy: each is cut off in time, and the others are served."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from tests.integration.cells.gateway_cell import CHAT, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.hostile.hostile_caller import HTTP, PLAIN_BODY, V1, Caller
from tests.integration.hostile.hostile_cell import (
    HEADER_SECONDS,
    KEEP_ALIVE_SECONDS,
    PATIENT,
    HostileCell,
    hostile_cell,
)
from tests.integration.hostile.hostile_crowd import Ending, all_of, drip, flood
from tests.integration.hostile.hostile_heads import chunked, head
from tests.integration.hostile.hostile_json import text
from tests.integration.hostile.hostile_shot import Shot

_MB = 2**20
# One read of the server, and what the kernel holds on the way.
_TAKEN_MAX = 4 * _MB
_SLACK_SECONDS = 4.0


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


def _post_head(caller: Caller, *lines: bytes, target: bytes = V1) -> bytes:
    return head(b"POST", target, HTTP, b"host: x", caller.key_line, *lines)


def _open_head(caller: Caller) -> bytes:
    """A head whose end is still to come."""
    return _post_head(caller)[:-2]


_FLOODS = {
    "many header lines": (b"", b"x-a: b\r\n"),
    "one endless header value": (b"x-a: ", b"y" * 64),
    "one endless header name": (b"", b"n" * 64),
}


@pytest.mark.parametrize("kind", _FLOODS)
def test_431_100_mb_of_headers(hostile: HostileCell, caller: Caller, kind: str) -> None:
    start, piece = _FLOODS[kind]
    port = hostile.cell.gateway.port
    seen: set[int] = set()
    # A client that goes on sending may have its connection reset before it reads the answer.
    for _ in range(5):
        endings = all_of(
            hostile.traffic, 4, lambda _: flood(port, _open_head(caller) + start, piece, 100 * _MB)
        )
        assert all(ending.bytes_taken < _TAKEN_MAX for ending in endings)
        seen |= {ending.status for ending in endings}
        if 431 in seen:
            break
    assert 431 in seen
    assert seen <= {431, 0}


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
    endings = all_of(hostile.traffic, 3, lambda _: flood(port, said, b"x" * 64, 100 * _MB))
    assert all(ending.bytes_taken < _TAKEN_MAX for ending in endings)
    endings += all_of(hostile.traffic, 3, lambda _: flood(port, streamed, chunk, 100 * _MB))
    assert all(ending.bytes_taken < 32 * _MB + _TAKEN_MAX for ending in endings)
    assert {ending.status for ending in endings} <= {413, 0}
    assert 413 in {ending.status for ending in endings}


def test_a_body_of_32_mb_for_a_page_is_not_kept(hostile: HostileCell, caller: Caller) -> None:
    port = hostile.cell.gateway.port
    start = _post_head(caller, b"transfer-encoding: chunked", target=b"/v1/models")
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    endings = all_of(hostile.traffic, 3, lambda _: flood(port, start, chunk, 200 * _MB))
    assert all(ending.bytes_taken < 32 * _MB + _TAKEN_MAX for ending in endings)


def test_a_body_in_chunks_of_one_byte(hostile: HostileCell, caller: Caller) -> None:
    body = text(chat_body())[:-1] + b"," + text({"x": "y" * 100_000})[1:]
    data = _post_head(caller, b"transfer-encoding: chunked") + chunked(body, "one by one")
    shots = [Shot("one byte chunks", data)] * 4
    assert hostile.traffic.fire(shots) == ["200"] * 4


def test_half_sent_headers_are_closed_in_time(hostile: HostileCell, caller: Caller) -> None:
    port = hostile.cell.gateway.port
    starts = [_open_head(caller), b"P", b"POST /v1", b"\r\n", b"GET / HTTP/1.1\r\nhost"]
    endings = all_of(hostile.traffic, 300, lambda number: drip(port, starts[number % 5], [], 0))
    assert {ending.status for ending in endings} == {408}
    assert max(ending.seconds for ending in endings) < HEADER_SECONDS + _SLACK_SECONDS


def test_headers_one_byte_at_a_time_are_closed_in_time(
    hostile: HostileCell, caller: Caller
) -> None:
    """Each byte alone is in time; all together are not."""
    port = hostile.cell.gateway.port
    drops = [b"x"] * 100
    endings = all_of(hostile.traffic, 100, lambda _: drip(port, _open_head(caller), drops, 0.2))
    assert {ending.status for ending in endings} <= {408, 0}
    assert max(ending.seconds for ending in endings) < HEADER_SECONDS + _SLACK_SECONDS


def test_connections_that_say_nothing_are_closed_in_time(hostile: HostileCell) -> None:
    port = hostile.cell.gateway.port
    endings = all_of(hostile.traffic, 300, lambda _: drip(port, b"", [], 0))
    assert {ending.status for ending in endings} == {0}
    assert max(ending.seconds for ending in endings) < HEADER_SECONDS + _SLACK_SECONDS


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
    endings = all_of(hostile.traffic, 20, lambda _: drip(port, start, [b"12345"], 0.3))
    assert {ending.status for ending in endings} == {200}
    assert max(ending.seconds for ending in endings) < KEEP_ALIVE_SECONDS + _SLACK_SECONDS


def test_slow_and_greedy_clients_leave_the_gateway_as_it_was(
    hostile: HostileCell, capsys: pytest.CaptureFixture[str]
) -> None:
    left = hostile.check_aftermath(rss_growth_max=256 * _MB)
    with capsys.disabled():
        print(f"\nslow and greedy clients: {left}")
