"""Several workers behind one port choose as one: a session's place and a replica's slots."""

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cells.gateway_cell import PAIR, Cell, CellFactory, new_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.testing import ScriptedEngine

_PATH = "/v1/chat/completions"
_WORKERS = 3
_SLOTS = 6
# Two workers that look in the same moment may both take the last slot.
_OVERSHOOT = _WORKERS - 1
_SESSIONS = 12
_TURNS = 5


@pytest.fixture
def cell(cells: CellFactory) -> Iterator[Cell]:
    # Not tmp_path: its paths may be too long for a Unix socket.
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    settings = {"ingress.workers": _WORKERS, "signals.folder": str(folder)}
    try:
        with cells.open(settings) as opened:
            yield opened
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def busy(cell: Cell) -> ScriptedEngine:
    """The one engine of a gateway whose workers share its few slots."""
    engine = cell.set_up(PAIR, slots_live=_SLOTS)
    _wait_until_heard(cell)
    return engine


def test_a_session_stays_whichever_worker_takes_its_turns(cell: Cell) -> None:
    engine = cell.set_up(PAIR)
    for _ in range(2):
        cell.enroll(cell.add_engine().url, PAIR)
    cell.wait_for_replicas(PAIR, 3)
    _wait_until_heard(cell)
    assert engine.state().requests == 0
    chats = [_Chat(cell, number) for number in range(_SESSIONS)]
    for _ in range(_TURNS):
        for chat in chats:
            chat.turn()
        # Time for the workers to tell each other, a few times over.
        time.sleep(0.5)
    for chat in chats:
        assert len(set(chat.replicas)) == 1, chat.replicas
        assert set(chat.moved) == {None}
    # Neither did one replica have them all, nor one worker.
    assert len({chat.replicas[0] for chat in chats}) >= 2
    served = [_finished(cell, pid) for pid in cell.gateway.worker_pids()]
    assert sum(served) == _SESSIONS * _TURNS
    assert min(served) >= 1


def test_workers_together_keep_to_a_replicas_slots(cell: Cell, busy: ScriptedEngine) -> None:
    asked = 8 * _SLOTS
    with _watched(busy) as seen, _streams(cell, asked, {"tokens": 10, "interval": 0.02}) as streams:
        for client in streams:
            client.read_until(b"data: [DONE]\n\n")
    assert _SLOTS - 1 <= max(seen) <= _SLOTS + _OVERSHOOT
    assert busy.state().finished == asked


def test_what_a_killed_worker_held_is_free_for_the_others(cell: Cell, busy: ScriptedEngine) -> None:
    endless: dict[str, object] = {"tokens": 3000, "interval": 0.02}
    with _streams(cell, 3 * _SLOTS, endless):
        eventually(lambda: busy.state().running >= _SLOTS)
        victim = max(cell.gateway.worker_pids(), key=lambda pid: _sent(cell, pid))
        held = _sent(cell, victim)
        assert held > 0
        os.kill(victim, signal.SIGKILL)
        eventually(lambda: busy.state().aborted >= held)
        with _streams(cell, _SLOTS, endless):
            eventually(lambda: busy.state().running >= _SLOTS)
            # Nor is it free twice: whoever takes the dead worker's place counts like any other.
            _wait_until_heard(cell)
            assert busy.state().running <= _SLOTS + _OVERSHOOT
    # The clients have left: nothing is held by anybody, dead or alive.
    eventually(lambda: busy.state().running == 0)
    cell.wait_until_idle()
    with _streams(cell, _SLOTS, {"tokens": 40, "interval": 0.05}) as streams:
        eventually(lambda: busy.state().running == _SLOTS)
        for client in streams:
            client.read_until(b"data: [DONE]\n\n")


class _Chat:
    """A conversation that takes a new connection for each turn."""

    def __init__(self, cell: Cell, number: int) -> None:
        self._cell = cell
        self._headers = {"connection": "close"}
        if number % 2:
            self._headers["x-session-id"] = f"session-{number}"
        self._messages = [{"role": "user", "content": f"Chat {number}. " + "Go on. " * 60}]
        self.replicas: list[str] = []
        self.moved: list[str | None] = []

    def turn(self) -> None:
        body = {"model": PAIR, "messages": self._messages}
        answer = self._cell.post(_PATH, body, headers=self._headers)
        assert answer.status_code == 200, answer.text
        self.replicas.append(answer.headers["x-penstock-replica"])
        self.moved.append(answer.headers.get("x-penstock-session-moved"))
        said = answer.json()["choices"][0]["message"]["content"]
        self._messages += [
            {"role": "assistant", "content": said},
            {"role": "user", "content": "And then? " * 40},
        ]


@contextlib.contextmanager
def _streams(cell: Cell, count: int, script: dict[str, object]) -> Iterator[list[RawClient]]:
    """So many requests at once, each on its own connection; all are left at the end."""
    with contextlib.ExitStack() as stack:
        clients = []
        for _ in range(count):
            client = stack.enter_context(RawClient(cell.gateway.port, seconds=30))
            body = new_body(PAIR, script, stream=True)
            client.send(post_bytes(_PATH, body, cell.key))
            clients.append(client)
        yield clients


@contextlib.contextmanager
def _watched(engine: ScriptedEngine) -> Iterator[list[int]]:
    """How many requests the engine runs, looked at again and again."""
    seen: list[int] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.01):
            seen.append(engine.state().running)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        is_over.set()
        watcher.join()


def _wait_until_heard(cell: Cell) -> None:
    gateway = cell.gateway
    eventually(lambda: gateway.metric("penstock_workers") == _WORKERS, 30)
    eventually(lambda: gateway.metric("penstock_peers_heard") == _WORKERS - 1, 30)


def _sent(cell: Cell, pid: int) -> int:
    """Requests that one worker has at the engine, each on a connection of its own."""
    return cell.gateway.worker_snapshot(pid).gauges.engine_connections


def _finished(cell: Cell, pid: int) -> int:
    return sum(sum(row.outcomes.values()) for row in cell.gateway.worker_snapshot(pid).rows)
