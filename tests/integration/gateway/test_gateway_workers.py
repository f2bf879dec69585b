"""Two workers behind one port: one may die at any moment, and is started again."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"


@pytest.fixture
def double(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open({"ingress.workers": 2}) as cell:
        engine = cell.set_up(CHAT)
        eventually(lambda: cell.gateway.metric("penstock_workers") == 2)
        yield cell, engine


def _in_flight(cell: Cell, pid: int) -> int:
    return sum(row.in_flight for row in cell.gateway.worker_snapshot(pid).rows)


def test_a_killed_worker_is_replaced_and_the_other_serves_on(
    double: tuple[Cell, ScriptedEngine],
) -> None:
    cell, engine = double
    workers = cell.gateway.worker_pids()
    assert len(workers) == 2
    streams = [RawClient(cell.gateway.port) for _ in range(12)]
    for client in streams:
        body = chat_body(script={"tokens": 60, "interval": 0.05}, stream=True)
        client.send(post_bytes(_V1, body, cell.key))
    for client in streams:
        client.read_until(b"data: ")
    held = [_in_flight(cell, pid) for pid in workers]
    assert sum(held) == 12
    os.kill(workers[0], signal.SIGKILL)
    survived = 0
    for client in streams:
        with client, contextlib.suppress(ConnectionError):
            client.read_until(b"data: [DONE]\n\n")
            survived += 1
    # The dead one's are lost, every one of the other's is whole.
    assert survived == held[1]
    # What the dead worker had running is stopped by its engine.
    eventually(lambda: engine.state().running == 0, 5)
    eventually(lambda: len(cell.gateway.worker_pids()) == 2, 15)
    assert workers[1] in cell.gateway.worker_pids()
    assert workers[0] not in cell.gateway.worker_pids()
    eventually(lambda: cell.gateway.metric("penstock_workers") == 2, 15)
    for _ in range(10):
        headers = {"connection": "close"}
        assert cell.post(_V1, chat_body(), headers=headers).status_code == 200


def test_requests_go_on_while_a_worker_is_replaced(double: tuple[Cell, ScriptedEngine]) -> None:
    cell, _ = double
    statuses: list[int] = []
    failures: list[Exception] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                with RawClient(cell.gateway.port, seconds=10) as client:
                    client.send(post_bytes(_V1, chat_body(), cell.key))
                    statuses.append(client.read_answer().status)
            except (ConnectionError, TimeoutError) as failure:
                failures.append(failure)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    os.kill(cell.gateway.worker_pids()[0], signal.SIGKILL)
    time.sleep(2.5)
    stop.set()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200}
    assert len(statuses) > 100
    # At most what the dead worker had in hand at that moment, none after it.
    assert len(failures) <= 8
    assert not [failure for failure in failures if isinstance(failure, TimeoutError)]


def test_a_worker_that_is_silent_for_some_seconds_is_not_killed(
    double: tuple[Cell, ScriptedEngine],
) -> None:
    """As one that starts on a machine with too much to do."""
    cell, _ = double
    workers = sorted(cell.gateway.worker_pids())
    os.kill(workers[0], signal.SIGSTOP)
    try:
        # uvicorn alone asks every half second, and waits 5 seconds for an answer.
        time.sleep(6.5)
    finally:
        os.kill(workers[0], signal.SIGCONT)
    eventually(lambda: cell.gateway.metric("penstock_workers") == 2)
    assert sorted(cell.gateway.worker_pids()) == workers
