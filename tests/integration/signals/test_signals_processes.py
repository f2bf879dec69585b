"""Workers in processes of their own: what is left when one is killed, stopped, or ends."""

import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.integration.cells.signals_worker import (
    HAMMER_MAX,
    HAMMERED,
    LOAD,
    REPLICA,
    Worker,
    WorkerProcess,
    eventually,
)

from penstock.records.host_load import HostLoad
from penstock.records.signal import PeerState
from penstock.signals import LoadTable, SignalsSettings


@pytest.fixture
def settings() -> Iterator[SignalsSettings]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    yield SignalsSettings(folder=str(folder))
    shutil.rmtree(folder)


@pytest.fixture
async def one(settings: SignalsSettings) -> AsyncIterator[Worker]:
    """A worker of the test's own, column 0."""
    async with Worker(settings).running() as worker:
        yield worker


@pytest.fixture
def others(settings: SignalsSettings, one: Worker) -> Iterator[list[WorkerProcess]]:
    processes = [WorkerProcess(settings) for _ in range(2)]
    yield processes
    for process in processes:
        process.stop()


def table_of(worker: Worker) -> LoadTable:
    assert worker.table is not None
    return worker.table


def sockets(settings: SignalsSettings) -> list[Path]:
    return list(Path(settings.folder).glob("*.sock"))


def in_flight(worker: Worker) -> float:
    return (table_of(worker).others(REPLICA) or HostLoad()).in_flight


async def test_processes_share_the_table_and_hear_each_other(
    one: Worker, others: list[WorkerProcess]
) -> None:
    await eventually(lambda: one.exchange.peers.known() == 2 and table_of(one).live_workers() == 3)
    assert one.listener.state is PeerState.HEARD
    await eventually(lambda: in_flight(one) == 2 * LOAD.in_flight)
    assert {signal.host for signal in one.listener.heard.values()} == {one.identity.host}


async def test_a_killed_worker_stops_counting_within_a_second_and_its_column_is_free(
    one: Worker, others: list[WorkerProcess], settings: SignalsSettings
) -> None:
    await eventually(lambda: in_flight(one) == 2 * LOAD.in_flight)
    await eventually(lambda: one.exchange.peers.known() == 2)
    senders = set(one.listener.heard)
    others[0].signal(signal.SIGKILL)
    seconds = await eventually(lambda: one.listener.state is PeerState.SILENT)
    # A second of silence and the wait for the next look, with room for a busy machine.
    assert seconds < settings.silence_seconds + settings.interval_seconds + 1
    await eventually(lambda: in_flight(one) == LOAD.in_flight)
    (gone,) = senders - set(one.listener.heard)
    assert one.listener.forgotten == [gone]
    others[0].stop()
    others[0] = WorkerProcess(settings)
    # The next one has its column and so its name: nobody is missed any longer.
    await eventually(lambda: one.listener.state is PeerState.HEARD)
    assert set(one.listener.heard) == senders
    await eventually(lambda: in_flight(one) == 2 * LOAD.in_flight)
    assert len(sockets(settings)) == 3


async def test_a_stopped_worker_is_silent_and_heard_again_when_it_goes_on(
    one: Worker, others: list[WorkerProcess]
) -> None:
    await eventually(lambda: in_flight(one) == 2 * LOAD.in_flight)
    await eventually(lambda: one.exchange.peers.known() == 2)
    os.kill(others[1].pid, signal.SIGSTOP)
    await eventually(lambda: one.listener.state is PeerState.SILENT)
    await eventually(lambda: in_flight(one) == LOAD.in_flight)
    os.kill(others[1].pid, signal.SIGCONT)
    await eventually(lambda: one.listener.state is PeerState.HEARD)
    await eventually(lambda: in_flight(one) == 2 * LOAD.in_flight)


async def test_a_worker_that_is_told_to_end_is_not_missed(
    one: Worker, others: list[WorkerProcess]
) -> None:
    await eventually(lambda: one.exchange.peers.known() == 2)
    others[0].signal(signal.SIGTERM)
    await eventually(lambda: one.exchange.peers.known() == 1)
    assert one.listener.state is PeerState.HEARD


async def test_a_reading_during_writing_is_at_worst_a_wrong_number(
    one: Worker, settings: SignalsSettings
) -> None:
    """Two processes write as fast as they can, and add their rows at the same time."""
    writers = [WorkerProcess(settings, "hammer") for _ in range(2)]
    try:
        await eventually(lambda: table_of(one).live_workers() == 3)
        readings = [table_of(one).others(each) for _ in range(200) for each in HAMMERED]
    finally:
        for writer in writers:
            writer.stop()
    assert table_of(one).damaged == 0
    assert table_of(one).missing <= 2 * len(HAMMERED)
    sums = [load.in_flight for load in readings if load is not None]
    assert len(sums) > len(readings) // 2
    assert all(0 <= number <= 2 * HAMMER_MAX for number in sums)
    assert max(sums) > 0
