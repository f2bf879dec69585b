"""A client that goes away, at any moment: the engine stops, and nothing is left in flight."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cells.gateway_cell import CHAT, PLAIN, Cell, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_STREAM = {"tokens": 1000, "interval": 0.02}


@pytest.fixture(scope="module")
def quiet(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open({"ingress.keepalive_seconds": 0.3}) as cell:
        yield cell, cell.set_up(CHAT, PLAIN)


@pytest.fixture
def cell(quiet: tuple[Cell, ScriptedEngine]) -> Cell:
    return quiet[0]


@pytest.fixture
def engine(quiet: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return quiet[1]


def _check_stopped(cell: Cell, engine: ScriptedEngine, aborted: int) -> None:
    """Within two seconds the engine runs nothing, and the gateway holds nothing."""
    began = time.monotonic()
    eventually(lambda: engine.state().aborted == aborted, 2)
    eventually(lambda: engine.state().running == 0, 2)
    eventually(lambda: cell.gateway.metric("penstock_in_flight") == 0, 2)
    eventually(lambda: cell.gateway.metric("penstock_client_connections") == 0, 2)
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    ("script", "stream", "wait_for"),
    [
        (_STREAM, True, b"data: "),
        ({"stall_before_first": 60}, True, b"\r\n\r\n"),
        ({"stall_before_head": 60}, True, b""),
        ({"stall_before_head": 60}, True, b": keepalive"),
        ({"stall_after": [3, None]}, True, b"data: "),
        ({"stall_before_head": 60}, False, b""),
        ({"tokens": 1000, "interval": 0.05}, False, b""),
    ],
    ids=["midstream", "after head", "before head", "keepalive", "stalled", "whole", "slow whole"],
)
def test_the_engine_stops_when_the_client_leaves(
    cell: Cell, engine: ScriptedEngine, script: dict[str, Any], stream: bool, wait_for: bytes
) -> None:
    state = engine.state()
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, chat_body(script=script, stream=stream), cell.key))
        if wait_for:
            client.read_until(wait_for)
        eventually(lambda: engine.state().requests == state.requests + 1)
    _check_stopped(cell, engine, state.aborted + 1)
    # Not kept open, so that the next test can count connections.
    answer = cell.post(_V1, chat_body(), headers={"connection": "close"})
    assert answer.status_code == 200


def test_leaving_is_told_apart_from_failing(cell: Cell, engine: ScriptedEngine) -> None:
    state = engine.state()
    left = cell.gateway.metric("penstock_requests_total", 'outcome="client_left"')
    failed = cell.gateway.metric("penstock_requests_total", 'outcome="failed"')
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, chat_body(script=_STREAM, stream=True), cell.key))
        _, _, headers = client.read_head()
        for _ in range(10):
            client.read_chunk()
    _check_stopped(cell, engine, state.aborted + 1)
    assert cell.gateway.metric("penstock_requests_total", 'outcome="client_left"') == left + 1
    assert cell.gateway.metric("penstock_requests_total", 'outcome="failed"') == failed
    line = cell.gateway.request_line(headers["x-request-id"])
    assert (line["outcome"], line["status"]) == ("client_left", 200)
    # What was made until then is counted: at least what the client had seen.
    assert line["output_tokens"] >= 8
    assert cell.gateway.metric("penstock_ejected_replicas") == 0


def test_a_reset_is_leaving_too(cell: Cell, engine: ScriptedEngine) -> None:
    state = engine.state()
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, chat_body(script=_STREAM, stream=True), cell.key))
        client.read_until(b"data: ")
        client.socket.setsockopt(1, 13, b"\x01\0\0\0\0\0\0\0")  # SO_LINGER 0: close by reset
    _check_stopped(cell, engine, state.aborted + 1)


def test_leaving_with_a_second_request_queued_behind_the_first(
    cell: Cell, engine: ScriptedEngine
) -> None:
    state = engine.state()
    request = post_bytes(_V1, chat_body(script=_STREAM, stream=True), cell.key)
    with RawClient(cell.gateway.port) as client:
        client.send(request + request)
        client.read_until(b"data: ")
    _check_stopped(cell, engine, state.aborted + 1)
    # The one behind it was never begun.
    assert engine.state().requests == state.requests + 1


def test_garbage_behind_a_request_ends_the_connection_after_the_answer(
    cell: Cell, engine: ScriptedEngine
) -> None:
    state = engine.state()
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, chat_body(script={"stall_before_head": 1}), cell.key))
        eventually(lambda: engine.state().requests == state.requests + 1)
        client.send(b"\x00\x01 nonsense\r\n\r\n")
        assert client.read_answer().status == 200
        assert client.is_closed()


def test_many_leave_at_once(cell: Cell, engine: ScriptedEngine) -> None:
    state = engine.state()
    kept = cell.gateway.metric("penstock_engine_connections")
    clients = [RawClient(cell.gateway.port) for _ in range(50)]
    for client in clients:
        client.send(post_bytes(_V1, chat_body(PLAIN, _STREAM, stream=True), cell.key))
    for client in clients:
        client.read_until(b"data: ")
    assert engine.state().running == 50
    for client in clients:
        client.close()
    _check_stopped(cell, engine, state.aborted + 50)
    # Connections that were dropped in mid-answer are not kept for others.
    assert cell.gateway.metric("penstock_engine_connections") <= kept


def test_leaving_with_half_a_body_sent(cell: Cell, engine: ScriptedEngine) -> None:
    requests = engine.state().requests
    whole = post_bytes(_V1, chat_body(), cell.key)
    with RawClient(cell.gateway.port) as client:
        client.send(whole[:-5])
        eventually(lambda: cell.gateway.metric("penstock_client_connections") == 1)
    eventually(lambda: cell.gateway.metric("penstock_client_connections") == 0)
    assert engine.state().requests == requests
