"""A gateway worker's signals without a gateway: run it in a test, or as a process to be killed."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Self

import msgspec

from penstock.clock import SystemClock
from penstock.records.host_load import HostLoad
from penstock.records.replica import ReplicaId
from penstock.records.signal import LoadClaim, PeerState, SentPrompt, Signal
from penstock.signals import CellKey, GossipLoops, SignalsSettings, open_table, worker_identity

CELL = CellKey("0123456789abcdef" * 4, b"k" * 32)
REPLICA = ReplicaId("replica")
# What a process that only writes to the table writes there.
HAMMERED = [ReplicaId(f"hammered-{number}") for number in range(64)]
HAMMER_MAX = 1000
LOAD = HostLoad(1000.0, 300.0, 1.0, 1.0, 2.0, 1.0, 5000.0)


class Told(msgspec.Struct, frozen=True):
    loads: list[LoadClaim]
    sent: list[SentPrompt]


class Listener:
    """Takes the router's place: says what it is given, and keeps what it hears."""

    def __init__(self) -> None:
        self.loads: list[LoadClaim] = []
        self.to_send: list[SentPrompt] = []
        self.heard: dict[int, Signal] = {}
        self.sessions: list[int] = []
        self.forgotten: list[int] = []
        self.state: PeerState | None = None

    def tell(self, now: float) -> Told:
        sent, self.to_send = self.to_send, []
        return Told(self.loads, sent)

    def hear(self, signal: Signal, sent: Sequence[SentPrompt], now: float) -> None:
        self.heard[signal.sender] = signal
        self.sessions += [prompt.session for prompt in sent]

    def forget_peer(self, sender: int) -> None:
        self.heard.pop(sender, None)
        self.forgotten.append(sender)

    def note_peers(self, state: PeerState) -> None:
        self.state = state


class Worker:
    """One exchange on this loop, with its column of the table."""

    def __init__(self, settings: SignalsSettings, cell: CellKey = CELL) -> None:
        clock = SystemClock()
        self.settings = settings
        self.table = open_table(settings, clock.monotonic())
        self.identity = worker_identity(self.table)
        self.listener = Listener()
        self.exchange = GossipLoops(self.identity, cell, settings, clock, self.listener, self.table)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        try:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(self.exchange.run())
                try:
                    yield self
                finally:
                    task.cancel()
        finally:
            if self.table is not None:
                self.table.close()

    def is_heard_by(self, *others: "Worker") -> bool:
        return all(self.identity.sender in other.listener.heard for other in others)


class WorkerProcess:
    """The same in a process of its own, ended by the pid it was started with."""

    def __init__(self, settings: SignalsSettings, task: str = "speak") -> None:
        command = [sys.executable, __file__, msgspec.json.encode(settings).decode(), task]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        self.pid = self._process.pid

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def stop(self) -> None:
        if self._process.poll() is None:
            self.signal(signal.SIGKILL)
        self._process.wait()


async def eventually(is_so: Callable[[], bool], seconds: float = 10.0) -> float:
    """Wait until it is so, and say how long that took."""
    start = time.monotonic()
    while not is_so():
        assert time.monotonic() < start + seconds, f"this did not come true within {seconds} s"
        await asyncio.sleep(0.01)
    return time.monotonic() - start


async def main(settings: SignalsSettings) -> None:
    """Claim some load, by table and by message, until the end."""
    worker = Worker(settings)
    worker.listener.loads = [LoadClaim(REPLICA, 1000, 300, 0.5, 0.5, 2, 1, 5000)]
    if worker.table is not None:
        worker.table.write(REPLICA, LOAD)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with worker.running():
        await ended.wait()


def hammer(settings: SignalsSettings) -> None:
    """Write to the table as fast as it goes, until killed."""
    table = open_table(settings, time.monotonic())
    assert table is not None
    while True:
        for number in range(HAMMER_MAX + 1):
            for replica in HAMMERED:
                table.write(replica, HostLoad(in_flight=float(number)))
            table.beat(time.monotonic())


if __name__ == "__main__":
    read = msgspec.json.decode(sys.argv[1], type=SignalsSettings)
    if sys.argv[2] == "hammer":
        hammer(read)
    asyncio.run(main(read))
