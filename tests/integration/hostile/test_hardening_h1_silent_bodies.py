"""Hardening row H1: bodies that are sent but for their end, and never finished, shut nobody out."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawAnswer, RawClient, post_bytes

_V1 = "/v1/chat/completions"
_MB = 2**20
_BODY_BYTES = 2 * _MB
_WINDOW_SECONDS = 1.0
_ALL_BYTES = 32 * _MB
# So many of these would fill the whole of it.
_CONNECTIONS = 20


@pytest.fixture(scope="module")
def cell(cells: CellFactory) -> Iterator[Cell]:
    settings = {
        "ingress.body_bytes_max": _BODY_BYTES,
        "ingress.bodies_bytes_max": _ALL_BYTES,
        "ingress.bodies_share_unknown_max": 0.25,
        "ingress.bodies_share_per_account_max": 0.5,
        "ingress.body_grace_seconds": _WINDOW_SECONDS,
    }
    with cells.open(settings) as cell:
        cell.set_up(CHAT)
        yield cell


def _but_for_its_end(key: str, path: str = _V1) -> bytes:
    return post_bytes(path, b" " * _BODY_BYTES, key)[:-2]


def _send_all(stack: ExitStack, cell: Cell, data: bytes) -> list[RawClient]:
    clients = [stack.enter_context(RawClient(cell.gateway.port)) for _ in range(_CONNECTIONS)]
    for client in clients:
        try:
            client.send(data)
        except ConnectionError:
            continue  # refused before it was all sent
    return clients


def _answer(client: RawClient) -> RawAnswer | None:
    try:
        return client.read_answer()
    except ConnectionError:
        return None  # closed while it was still sending: the answer was lost on the way


def _memory_bytes(cell: Cell) -> int:
    (pid,) = cell.gateway.worker_pids()
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def _codes(clients: list[RawClient]) -> set[str]:
    answers = [answer for client in clients if (answer := _answer(client)) is not None]
    return {answer.json()["error"]["code"] for answer in answers}


def test_silent_bodies_with_unknown_keys_leave_room_for_every_account(cell: Cell) -> None:
    began = time.monotonic()
    with ExitStack() as stack:
        clients = _send_all(stack, cell, _but_for_its_end("nobody"))
        # A body that does not come with its head, so that it needs room.
        with RawClient(cell.gateway.port) as known:
            whole = post_bytes(_V1, chat_body(user="x" * 500_000), cell.key)
            known.send(whole[:300_000])
            time.sleep(0.1)
            known.send(whole[300_000:])
            assert known.read_answer().status == 200
        assert _codes(clients) == {"overloaded", "body_too_slow"}
    # Silence is found within two windows, however much had come before it.
    assert time.monotonic() - began < 10 * _WINDOW_SECONDS


def test_silent_bodies_of_one_account_leave_room_for_the_others(cell: Cell) -> None:
    _, _, other = cell.add_account("greedy")
    eventually(
        lambda: cell.get("/v1/models", headers={"authorization": f"Bearer {other}"}).is_success
    )
    with ExitStack() as stack:
        clients = _send_all(stack, cell, _but_for_its_end(other))
        assert cell.chat(chat_body(user="x" * 500_000)).status_code == 200
        assert _codes(clients) == {"over_limit", "body_too_slow"}


def test_whole_bodies_with_unknown_keys_are_not_kept_behind_their_answer(cell: Cell) -> None:
    before = _memory_bytes(cell)
    with ExitStack() as stack:
        for _ in range(_CONNECTIONS):
            client = stack.enter_context(RawClient(cell.gateway.port))
            client.send(post_bytes(_V1, b" " * _BODY_BYTES, "nobody"))
            assert client.read_answer().status == 401
        # All of these connections are still open.
        assert _memory_bytes(cell) - before < 8 * _BODY_BYTES


@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches", "/healthz"])
def test_silent_uploads_with_unknown_keys_hold_no_memory(cell: Cell, path: str) -> None:
    before = _memory_bytes(cell)
    with ExitStack() as stack:
        _send_all(stack, cell, _but_for_its_end("nobody", path))
        assert _memory_bytes(cell) - before < _BODY_BYTES * _CONNECTIONS / 3
        assert cell.chat(chat_body()).status_code == 200


def test_all_is_given_back(cell: Cell) -> None:
    eventually(lambda: cell.gateway.metric("penstock_client_connections") <= 1)
    for _ in range(2):
        assert cell.chat(chat_body(user="x" * 1_000_000)).status_code == 200
