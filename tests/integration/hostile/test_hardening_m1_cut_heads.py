"""Heads that a connection repeats, cut at every place: by clients, and by engines.

This suite runs on the compiled package. There a head that ended exactly where a value begins was
once a SystemError: the client's connection was closed without a byte, an engine's answer was 502.
"""

import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.integration.cells.gateway_cell import ABSENT, CHAT, Cell, CellFactory, chat_body
from tests.integration.cells.raw_client import RawClient, post_bytes
from tests.unit.wire import cut_heads
from tests.unit.wire.cut_heads import DATES, STATUS_LINE, check_read, learned, message

# Long enough for the first part to be read by itself.
_PAUSE_SECONDS = 0.004


@pytest.mark.parametrize("line", [cut_heads.REQUEST_LINE, STATUS_LINE])
def test_a_head_cut_anywhere_is_read_as_a_parser_reads_it(line: bytes) -> None:
    first, second = (message(line, body, date=DATES[0]) for body in (b"{}", b'{"longer":"body"}'))
    end = second.find(b"\r\n\r\n") + 4
    for cut in range(len(second) + 1):
        assert check_read(learned(first), second[:cut]) == (cut >= end)


@given(cut_heads.first_lines, cut_heads.bodies, cut_heads.bodies, cut_heads.dates,
       cut_heads.more_lines, st.integers(0, 400))  # fmt: skip
def test_heads_of_one_connection_cut_anywhere(
    line: bytes, body: bytes, other: bytes, date: bytes, more: bytes, cut: int
) -> None:
    known = learned(message(line, body, date=date, more=more))
    data = message(line, other, date=date, more=more)
    assert check_read(known, data[:cut]) == (cut >= data.find(b"\r\n\r\n") + 4)


@given(cut_heads.first_lines, st.integers(0, 250), cut_heads.others, st.booleans())
def test_a_head_with_other_bytes_in_it_is_read_as_a_parser_reads_it(
    line: bytes, at: int, other: bytes, is_inserted: bool
) -> None:
    data = message(line, b'{"a":1}', date=DATES[0], more=b"x-last: 1\r\n")
    changed = data[:at] + other + data[at if is_inserted else at + len(other) :]
    check_read(learned(data), changed)


class CuttingEngine:
    """Sends each answer in two parts, cut one byte later than the one before."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with closing(client):
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                client.settimeout(20)
                self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        for number in itertools.count():
            data = b""
            while b"\r\n\r\n" not in data or not data.endswith(b"}"):
                part = client.recv(65536)
                if not part:
                    return
                data += part
            answer = answers()[number % 2]
            cut = number // 2 % len(answer)
            client.sendall(answer[:cut])
            time.sleep(_PAUSE_SECONDS)
            client.sendall(answer[cut:])

    def close(self) -> None:
        # Closing alone would not wake a thread that waits in accept.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(25)


def answers() -> list[bytes]:
    choices = [{"index": 0, "message": {"role": "assistant", "content": text}} for text in "ab"]
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    bodies = [{"choices": choices[:1], "usage": usage}, {"choices": choices, "usage": usage}]
    more = b"content-type: application/json\r\n"
    return [
        message(STATUS_LINE, json.dumps(body).encode(), date=date, more=more)
        for date, body in zip(DATES, bodies, strict=True)
    ]


@pytest.fixture(scope="module")
def cell(cells: CellFactory) -> Iterator[Cell]:
    with cells.open() as cell:
        cell.set_up(CHAT)
        yield cell


def test_a_client_may_cut_the_heads_that_it_repeats_anywhere(cell: Cell) -> None:
    bodies = (chat_body(), chat_body(user="somebody"))
    requests = [post_bytes("/v1/chat/completions", body, cell.key) for body in bodies]
    with RawClient(cell.gateway.port) as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for data in requests:
            client.send(data)
            assert client.read_answer().status == 200
        for number in range(1, requests[0].find(b"\r\n\r\n") + 5):
            data = requests[number % 2]
            client.send(data[:number])
            time.sleep(_PAUSE_SECONDS)
            client.send(data[number:])
            assert client.read_answer().status == 200, data[:number]


def test_an_engine_may_cut_the_heads_that_it_repeats_anywhere(cell: Cell) -> None:
    engine = CuttingEngine()
    replica = cell.enroll(engine.url, ABSENT)
    try:
        cell.wait_for_replicas(ABSENT, 1)
        count = 2 * (max(answer.find(b"\r\n\r\n") for answer in answers()) + 5)
        for number in range(count):
            answer = cell.chat(chat_body(ABSENT))
            assert answer.status_code == 200, (number, answer.text)
            assert len(answer.json()["choices"]) == number % 2 + 1
    finally:
        cell.withdraw(replica)
        cell.wait_for_replicas(ABSENT, 0)
        engine.close()
