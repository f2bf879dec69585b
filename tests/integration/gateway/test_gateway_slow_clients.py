"""Clients that do not read: the engine is held back, memory is bounded, the stalled are dropped."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_TOKENS = 100_000
_STALL_SECONDS = 2.0
# More than one segment of the loopback device: with less, TCP itself may crawl by its timers.
_RECEIVE_BYTES = 200_000
# More than the kernel takes in on both sides.
_LARGE = 12_000_000


@pytest.fixture(scope="module")
def narrow(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    """Small buffers, and all the patience that a gateway comes with."""
    settings = {"engine.write_buffer_bytes": 65_536, "engine.between_bytes_seconds": 1.0}
    with cells.open(settings) as cell:
        yield cell, cell.set_up(CHAT)


@pytest.fixture(scope="module")
def hasty(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    """Clients that do not read are soon dropped, and idle ones too."""
    settings = {
        "ingress.client_stall_seconds": _STALL_SECONDS,
        "ingress.keep_alive_seconds": 1,
        "engine.write_buffer_bytes": 65_536,
    }
    with cells.open(settings) as cell:
        yield cell, cell.set_up(CHAT)


def _memory_bytes(cell: Cell) -> int:
    (pid,) = cell.gateway.worker_pids()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096


def _made(engine: ScriptedEngine) -> int:
    """Tokens that the engine has sent for its last request."""
    last = engine.state().last_request
    return int(last["completion_tokens"]) if last is not None else 0


def _when_it_stands_still(engine: ScriptedEngine) -> int:
    """The count of tokens once it no longer grows."""
    made = -1
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        before, made = made, _made(engine)
        if made == before and made > 0:
            return made
        time.sleep(0.3)
    raise AssertionError(f"the engine goes on sending: {made}")


def _stalled(cell: Cell, requests: int = 1) -> RawClient:
    body = chat_body(script={"tokens": _TOKENS}, stream=True, max_tokens=2 * _TOKENS)
    client = RawClient(cell.gateway.port, receive_bytes=_RECEIVE_BYTES)
    client.send(post_bytes(_V1, body, cell.key) * requests)
    return client


def test_a_client_that_does_not_read_holds_the_engine_back(
    narrow: tuple[Cell, ScriptedEngine],
) -> None:
    cell, engine = narrow
    before = _memory_bytes(cell)
    with _stalled(cell) as client:
        made = _when_it_stands_still(engine)
        assert made < 0.6 * _TOKENS
        assert _memory_bytes(cell) - before < 8_000_000
        # The between-bytes timeout is about engines that are silent, not about clients.
        time.sleep(1.5)
        assert _made(engine) == made
        assert engine.state().running == 1
        # It goes on where it was when the client reads again, and nothing is missing.
        received = client.read_until(b"data: [DONE]\n\n")
        assert received.count(b"data: {") == _TOKENS + 1
        assert b'"error"' not in received
    assert _memory_bytes(cell) - before < 12_000_000


def test_a_client_that_never_reads_is_dropped(hasty: tuple[Cell, ScriptedEngine]) -> None:
    cell, engine = hasty
    aborted = engine.state().aborted
    with _stalled(cell):
        began = time.monotonic()
        eventually(lambda: engine.state().aborted == aborted + 1, _STALL_SECONDS + 4)
        assert time.monotonic() - began > _STALL_SECONDS - 0.5
    cell.wait_until_idle()
    left = cell.gateway.metric("penstock_requests_total", 'outcome="client_left"')
    assert left >= 1


def test_a_second_request_behind_the_first_does_not_undo_the_holding_back(
    narrow: tuple[Cell, ScriptedEngine],
) -> None:
    cell, engine = narrow
    before = _memory_bytes(cell)
    requests = engine.state().requests
    with _stalled(cell, requests=2):
        assert _when_it_stands_still(engine) < 0.6 * _TOKENS
        assert _memory_bytes(cell) - before < 8_000_000
        assert engine.state().requests == requests + 1
    cell.wait_until_idle()


def test_an_answer_that_is_not_streamed_to_a_client_that_does_not_read(
    hasty: tuple[Cell, ScriptedEngine],
) -> None:
    cell, _ = hasty
    with RawClient(cell.gateway.port, receive_bytes=_RECEIVE_BYTES) as client:
        client.send(post_bytes(_V1, chat_body(script={"huge_line": _LARGE}), cell.key))
        # Kept for it while it stalls, dropped with it when that takes too long.
        time.sleep(_STALL_SECONDS + 1.5)
        with pytest.raises(ConnectionError):
            client.read_answer()
    cell.wait_until_idle()


def test_requests_behind_an_answer_that_is_not_read_are_not_begun(
    narrow: tuple[Cell, ScriptedEngine],
) -> None:
    """Many small requests for large answers in one packet: only what is read is made."""
    cell, engine = narrow
    before = _memory_bytes(cell)
    requests = engine.state().requests
    body = chat_body(script={"huge_line": _LARGE})
    with RawClient(cell.gateway.port, receive_bytes=_RECEIVE_BYTES) as client:
        client.send(post_bytes(_V1, body, cell.key) * 8)
        time.sleep(1)
        assert engine.state().requests == requests + 1
        assert _memory_bytes(cell) - before < 5 * _LARGE
        for _ in range(8):
            assert len(client.read_answer().body) > _LARGE
    assert engine.state().requests == requests + 8


def test_an_idle_connection_is_closed_after_a_slow_answer_too(
    hasty: tuple[Cell, ScriptedEngine],
) -> None:
    cell, _ = hasty
    with RawClient(cell.gateway.port, receive_bytes=_RECEIVE_BYTES) as client:
        client.send(post_bytes(_V1, chat_body(script={"huge_line": _LARGE}), cell.key))
        time.sleep(0.5)
        assert len(client.read_answer().body) > _LARGE
        began = time.monotonic()
        assert client.is_closed()
        assert time.monotonic() - began < 4


def test_a_slow_but_steady_client_gets_everything(narrow: tuple[Cell, ScriptedEngine]) -> None:
    cell, _ = narrow
    with RawClient(cell.gateway.port, receive_bytes=_RECEIVE_BYTES) as client:
        body = chat_body(script={"tokens": 4000}, stream=True)
        client.send(post_bytes(_V1, body, cell.key))
        received = b""
        began = time.monotonic()
        while not received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
            received += client.read_some()
            time.sleep(0.005)
        assert received.count(b"data: {") == 4001
        assert time.monotonic() - began < 30
