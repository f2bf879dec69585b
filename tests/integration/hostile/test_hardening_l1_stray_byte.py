"""Hardening row L1: stray bytes behind a request do not cost the request its answer."""

from collections.abc import Iterator

import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_STRAY = [b"\x00", b"!", b"GARBAGE\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"}\n{"]


@pytest.fixture(scope="module")
def served(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open({}) as cell:
        yield cell, cell.set_up(CHAT)


@pytest.mark.parametrize("stray", _STRAY)
@pytest.mark.parametrize("stream", [False, True])
def test_request_with_a_stray_byte_behind_it_is_answered_and_then_closed(
    served: tuple[Cell, ScriptedEngine], stray: bytes, stream: bool
) -> None:
    cell, _ = served
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, chat_body(stream=stream), cell.key) + stray)
        answer = client.read_answer()
        assert answer.status == 200
        assert answer.headers["connection"] == "close"
        assert client.is_closed()


def test_requests_before_a_broken_one_are_all_answered(
    served: tuple[Cell, ScriptedEngine],
) -> None:
    cell, engine = served
    before = engine.state().requests
    whole = post_bytes(_V1, chat_body(), cell.key)
    broken = whole.replace(b"content-length: ", b"transfer-encoding: chunked\r\nx: ")
    for last in (b"\x00", broken):
        with RawClient(cell.gateway.port) as client:
            client.send(whole * 3 + last)
            assert [client.read_answer().status for _ in range(3)] == [200] * 3
            assert client.is_closed()
    assert engine.state().requests == before + 6


def test_page_with_a_stray_byte_behind_it_is_answered_and_then_closed(
    served: tuple[Cell, ScriptedEngine],
) -> None:
    cell, _ = served
    with RawClient(cell.gateway.port) as client:
        client.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n\x00")
        assert client.read_answer().status == 200
        assert client.is_closed()


def test_client_that_leaves_behind_a_stray_byte_ends_its_request(
    served: tuple[Cell, ScriptedEngine],
) -> None:
    cell, _ = served
    stalled = chat_body(script={"stall_before_head": 30})
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, stalled, cell.key) + b"\x00")
    cell.wait_until_idle(5)


def test_client_that_goes_on_behind_a_stray_byte_is_closed(
    served: tuple[Cell, ScriptedEngine],
) -> None:
    cell, _ = served
    stalled = chat_body(script={"stall_before_head": 30})
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, stalled, cell.key) + b"\x00")
        with pytest.raises(ConnectionError):
            client.send(b"x" * 100_000_000)
    cell.wait_until_idle(5)
