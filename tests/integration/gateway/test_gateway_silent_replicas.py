"""Engines that fall silent, die or are slow, and keepers that lie about them: who gets requests."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integration.cells.gateway_cell import CHAT, PAIR, Cell, CellFactory, new_body
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.clock import SystemClock
from penstock.policy import cell_mark, read_cell_secret, signal_key
from penstock.records.signal import EngineClaim
from penstock.signals import Announcer, CellKey, SignalsSettings, keeper_identity
from penstock.store import Store
from penstock.testing import ScriptedEngine

# As a production gateway has them.
_PATIENT = {"routing.eject_seconds": 1.0, "routing.probe_seconds": 1.0}
_WITHIN_SECONDS = 2.0
_EJECTED = "penstock_ejected_replicas"


class Pair:
    """A gateway with two replicas of one model."""

    def __init__(self, cell: Cell, signals: Path) -> None:
        self.cell = cell
        self.signals = signals
        self.steady = cell.set_up(CHAT)
        cell.enroll(self.steady.url, PAIR)
        self.engine = cell.add_engine()
        self.replica = cell.enroll(self.engine.url, PAIR)
        cell.wait_for_replicas(PAIR, 2)

    def ejected(self) -> float:
        return self.cell.gateway.metric(_EJECTED)

    def replica_of_next(self) -> str:
        """Who serves the next request."""
        answer = self.cell.chat(new_body(PAIR))
        assert answer.status_code == 200
        return str(self.cell.gateway.request_line(answer.headers["x-request-id"])["replica"])

    @contextlib.contextmanager
    def stream_on(self, engine: ScriptedEngine) -> Iterator[RawClient]:
        """A long stream, and another one on the other engine."""
        with contextlib.ExitStack() as stack:
            clients = []
            for _ in range(2):
                before = engine.state().running
                client = RawClient(self.cell.gateway.port)
                stack.callback(client.close)
                body = new_body(PAIR, {"tokens": 3000, "interval": 0.02}, stream=True)
                client.send(post_bytes("/v1/chat/completions", body, self.cell.key))
                client.read_until(b"data: ")
                if engine.state().running > before:
                    clients.append(client)
            (there,) = clients
            yield there


@pytest.fixture
def pair(cells: CellFactory) -> Iterator[Pair]:
    # Not tmp_path: its paths may be too long for a Unix socket.
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    try:
        with cells.open({**_PATIENT, "signals.folder": str(folder)}) as cell:
            yield Pair(cell, folder)
    finally:
        shutil.rmtree(folder)


def test_a_stopped_engine_is_out_within_two_seconds_and_back_within_two(pair: Pair) -> None:
    with pair.stream_on(pair.engine) as client:
        os.kill(pair.engine.pid, signal.SIGSTOP)
        try:
            eventually(lambda: pair.ejected() == 1, _WITHIN_SECONDS)
            for _ in range(6):
                assert pair.replica_of_next() != pair.replica.id
        finally:
            os.kill(pair.engine.pid, signal.SIGCONT)
        eventually(lambda: pair.ejected() == 0, _WITHIN_SECONDS)
        # Nothing of what it had under way is lost.
        client.read_until(b"data: ")
    eventually(lambda: pair.replica_of_next() == pair.replica.id)


def test_a_request_sent_to_a_stopped_engine_makes_it_known(pair: Pair) -> None:
    os.kill(pair.engine.pid, signal.SIGSTOP)
    senders = [
        threading.Thread(target=pair.cell.chat, args=(new_body(PAIR, {"tokens": 1}),))
        for _ in range(4)
    ]
    try:
        for sender in senders:
            sender.start()
        eventually(lambda: pair.ejected() == 1, _WITHIN_SECONDS)
    finally:
        os.kill(pair.engine.pid, signal.SIGCONT)
    for sender in senders:
        sender.join()
    eventually(lambda: pair.ejected() == 0)


def test_a_killed_engine_costs_no_request(pair: Pair) -> None:
    assert pair.replica_of_next()
    pair.engine.kill()
    for _ in range(6):
        assert pair.replica_of_next() != pair.replica.id


def test_a_slow_engine_that_answers_probes_is_never_left_out(pair: Pair) -> None:
    cell, engine = pair.cell, pair.steady
    probes = engine.state().probes
    answer = cell.chat(new_body(CHAT, {"stall_before_head": 5.0}))
    assert answer.status_code == 200
    _check_nobody_was_ejected(cell)
    asked = engine.state().probes - probes
    # It was asked, once a second at most.
    assert 2 <= asked <= 6


def test_an_engine_too_busy_for_probes_is_kept_while_bytes_come(pair: Pair) -> None:
    lie = [EngineClaim(pair.replica.id, is_healthy=False)]
    with pair.stream_on(pair.engine), _told(pair, lie):
        pair.engine.control(health_delay=30.0)
        probes = pair.engine.state().probes
        eventually(lambda: pair.engine.state().probes >= probes + 3)
        _check_nobody_was_ejected(pair.cell)


def test_a_keeper_that_lies_takes_no_healthy_replica_away(pair: Pair) -> None:
    lie = [EngineClaim(pair.replica.id, is_healthy=False)]
    probes = pair.engine.state().probes
    with _told(pair, lie):
        eventually(lambda: pair.engine.state().probes >= probes + 3)
        served = [pair.replica_of_next() for _ in range(8)]
    assert pair.replica.id in served
    _check_nobody_was_ejected(pair.cell)


def test_an_idle_engine_is_out_when_its_keeper_is_right(pair: Pair) -> None:
    pair.engine.kill()
    with _told(pair, [EngineClaim(pair.replica.id, is_healthy=False)]):
        eventually(lambda: pair.ejected() == 1, _WITHIN_SECONDS)


def _check_nobody_was_ejected(cell: Cell) -> None:
    assert cell.gateway.metric(_EJECTED) == 0
    assert "replica ejected" not in cell.gateway.log_text()


@contextlib.contextmanager
def _told(pair: Pair, claims: list[EngineClaim]) -> Iterator[None]:
    """Say this as a keeper with the cell's own key would, until the block ends."""

    async def read(store: Store) -> bytes:
        async with store.transaction() as transaction:
            return await read_cell_secret(transaction)

    secret = pair.cell.run(read)
    cell = CellKey(cell_mark(secret), signal_key(secret))
    settings = SignalsSettings(folder=str(pair.signals), interval_seconds=0.1)
    loop = asyncio.new_event_loop()
    announcer = Announcer(
        keeper_identity("a keeper"), cell, settings, SystemClock(), lambda _: claims
    )
    speaking = loop.create_task(announcer.run())

    def speak() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(speaking)

    speaker = threading.Thread(target=speak)
    speaker.start()
    try:
        yield
    finally:
        loop.call_soon_threadsafe(speaking.cancel)
        speaker.join()
        loop.close()
