"""An engine whose headers or trailers never end costs the gateway no memory and ends in 502."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.integration.cells.gateway_cell import (
    ABSENT,
    CHAT,
    Cell,
    CellFactory,
    chat_body,
    events_of,
)

_HEADERS = b"x-filling: " + b"y" * 1000 + b"\r\n"
_OFFERED_BYTES = 96 * 2**20
# What the kernel takes in on both sides of a connection, before anybody reads it.
_BUFFERED_BYTES = 24 * 2**20
_GROWTH_BYTES = 32 * 2**20
_EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
_OK = b"HTTP/1.1 200 OK\r\n"
_STREAM = (
    _OK + b"content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    b"%x\r\n%b\r\n0\r\n" % (len(_EVENT), _EVENT)
)


class EndlessEngine:
    """Answers each chat with `opening`, and then with header lines, as many as it can send."""

    def __init__(self, opening: bytes) -> None:
        self._opening = opening
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        self.sent: list[int] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            with closing(client):
                client.settimeout(20)
                self._answer(client)

    def _answer(self, client: socket.socket) -> None:
        if client.recv(65536).startswith(b"GET"):
            client.sendall(_OK + b"content-length: 0\r\nconnection: close\r\n\r\n")
            return
        sent = 0
        try:
            client.sendall(self._opening)
            while sent < _OFFERED_BYTES:
                sent += client.send(_HEADERS * 64)
        except OSError:
            pass
        self.sent.append(sent)

    def close(self) -> None:
        # Closing alone would not wake a thread that waits in accept.
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(10)


@pytest.fixture(scope="module")
def cell(cells: CellFactory) -> Iterator[Cell]:
    with cells.open({"engine.total_seconds": 20}) as cell:
        cell.set_up(CHAT)
        yield cell


def _resident_bytes(cell: Cell) -> int:
    found = [
        re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        for pid in cell.gateway.worker_pids()
    ]
    return sum(int(match[1]) * 1024 for match in found if match is not None)


@pytest.mark.parametrize("is_stream", [False, True], ids=["headers", "trailers"])
def test_an_engine_that_sends_header_lines_without_end_is_cut_off(
    cell: Cell, is_stream: bool
) -> None:
    engine = EndlessEngine(_STREAM if is_stream else _OK)
    replica = cell.enroll(engine.url, ABSENT)
    try:
        cell.wait_for_replicas(ABSENT, 1)
        before = _resident_bytes(cell)
        answer = cell.chat(chat_body(ABSENT, stream=is_stream))
        grown = _resident_bytes(cell) - before
    finally:
        cell.withdraw(replica)
        engine.close()
    assert engine.sent[0] < _BUFFERED_BYTES
    assert grown < _GROWTH_BYTES
    if is_stream:
        assert answer.status_code == 200
        assert json.loads(events_of(answer.text)[-2])["error"]["code"] == "engine_failed"
    else:
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "engine_failed"
    cell.wait_for_replicas(ABSENT, 0)
