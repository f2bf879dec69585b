"""A keeper that runs in a test, with real engines, and what a gateway sees of it."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from penstock.catalogue import Catalogue
from penstock.clock import SystemClock
from penstock.fleet.processes import is_running, signal_group, signal_process
from penstock.fleet.progress import ReplicaProgress
from penstock.fleet.reconcile import Keeper
from penstock.fleet.roster import RosterMirror
from penstock.fleet.settings import FleetSettings
from penstock.records.replica import Replica
from penstock.store import Sealing, Store


def own_ports(first: int, count: int) -> int:
    """The first of so many ports that tests of other processes, which run beside, do not take.

    Keepers that look for a free port at the same moment would find the same one.
    """
    return first + os.getpid() % 10 * count


def quick_settings(folder: Path, **changes: Any) -> FleetSettings:
    """Settings of a keeper that loses no time."""
    quick: dict[str, Any] = {
        "state_folder": str(folder),
        "port_first": own_ports(24000, 100),
        "port_last": own_ports(24000, 100) + 99,
        "heartbeat_seconds": 0.1,
        "health_interval_seconds": 0.1,
        "restart_first_seconds": 0.5,
        "drain_settle_seconds": 0.3,
        "stop_grace_seconds": 5.0,
        "lock_wait_seconds": 5.0,
        "roster_poll_seconds": 0.1,
        "orphan_seconds": 60.0,
    }
    return FleetSettings(**{**quick, **changes})


@contextmanager
def state_folder(path: Path) -> Iterator[Path]:
    """A state folder. What still runs when the test is over is ended, by pid and start time."""
    yield path
    for state in states_in(path):
        signal_process(state["supervisor_pid"], state["supervisor_started"], signal.SIGKILL)
        if is_up(state):
            signal_group(state["engine_pid"], signal.SIGKILL)


def states_in(folder: Path) -> list[dict[str, Any]]:
    """Every launched replica there has been, oldest first."""
    paths = sorted(folder.glob("*/*/state.json"), key=lambda path: path.parent.name)
    found = [json.loads(path.read_bytes()) for path in paths]
    return [state for state in found if state["engine_pid"]]


def is_up(state: dict[str, Any]) -> bool:
    return is_running(state["engine_pid"], state["engine_started"])


class WatchedKeeper:
    """A keeper that runs, the mirror of a gateway, and all that was said on the way."""

    def __init__(
        self,
        store: Store,
        settings: FleetSettings,
        catalogue: Catalogue,
        sealing: Sealing | None = None,
    ) -> None:
        self.progress: list[ReplicaProgress] = []
        self.keeper = Keeper(settings, catalogue, store, SystemClock(), sealing=sealing)
        self.mirror = RosterMirror(store, SystemClock(), settings, sealing)
        self._models = [catalogue.find(wanted.model).id for wanted in settings.replicas]

    def hear(self, progress: ReplicaProgress) -> None:
        self.progress.append(progress)

    async def ready(self, count: int = 1, other_than: str = "") -> Replica:
        """Wait for so many ready replicas of the first model; return the oldest."""
        wanted = self._models[0]

        def is_so() -> bool:
            listed = self.mirror.ready(wanted)
            return len(listed) == count and all(one.id != other_than for one in listed)

        await until(is_so)
        return self.mirror.ready(wanted)[0]


@asynccontextmanager
async def running(watched: WatchedKeeper, *, stop_replicas: bool = False) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        follower = group.create_task(watched.mirror.run())
        keeping = group.create_task(
            watched.keeper.run(stop_replicas=stop_replicas, on_progress=watched.hear)
        )
        try:
            yield
        finally:
            watched.keeper.stop()
            await keeping
            follower.cancel()
    assert watched.keeper.failures == 0


async def until(claim: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.02)
