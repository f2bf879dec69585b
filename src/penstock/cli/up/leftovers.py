"""Ends the processes that a killed run left, before a new run begins in the same folder."""

import asyncio
import signal

from penstock.cli.up.state import ProcessMark, UpState
from penstock.fleet.processes import is_running, signal_process

_LOOK_SECONDS = 0.1
# Orphans end by themselves; one that takes longer, to drain its streams, gets signals.
_PATIENCE_SECONDS = ((None, 3.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
# The embedded Postgres has its own lock, and a watcher that ends it.
_POSTGRES = "postgres"


async def end_leftovers(state: UpState) -> None:
    """Wait for the last run's processes, then signal them. The caller holds the folder."""
    running = state.read_running()
    if running is None:
        return
    left = [mark for mark in running.processes if mark.name != _POSTGRES]
    for number, seconds in _PATIENCE_SECONDS:
        for mark in left:
            if number is not None:
                signal_process(mark.pid, mark.started, number)
        left = await _wait_for(left, seconds)
    state.forget_running()


async def _wait_for(marks: list[ProcessMark], seconds: float) -> list[ProcessMark]:
    """Return the processes that still run after `seconds`."""
    for _ in range(int(seconds / _LOOK_SECONDS)):
        marks = [mark for mark in marks if is_running(mark.pid, mark.started)]
        if not marks:
            break
        await asyncio.sleep(_LOOK_SECONDS)
    return marks
