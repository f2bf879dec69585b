"""`penstock stop`: ends a `penstock up` that runs in another terminal, as its Ctrl-C does.

Where none runs, it ends the engines that a run with `--keep-engines` left loaded.
"""

import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from penstock.cli.exit_codes import CommandFailed
from penstock.cli.options import DEFAULT_STATE, StateOption
from penstock.cli.output import console
from penstock.cli.up.present_run import present_run
from penstock.cli.up.state import UP, ProcessMark, UpState
from penstock.fleet.processes import is_running, signal_process
from penstock.fleet.replica_files import StateFolder

_LOOK_SECONDS: Final = 0.1


def stop(
    state: StateOption = DEFAULT_STATE,
    seconds: Annotated[
        float, typer.Option(min=0, help="How long to wait for it to end.", metavar="SECONDS")
    ] = 120.0,
) -> None:
    """End the `penstock up` of this folder in order, and wait until it has ended.

    If it keeps engines (`up --keep-engines`), a second `penstock stop` ends these too.
    """
    kept = [] if UpState(state).is_held else _kept_engines(state)
    if kept:
        _end(kept, seconds)
        console().print(f"stopped {len(kept)} engines that an earlier run had kept")
        return
    up = next(mark for mark in present_run(state).processes if mark.name == UP)
    _end([up], seconds)
    console().print("stopped")


def _kept_engines(state: Path) -> list[ProcessMark]:
    """Return the supervisors of engines that run in this folder without a keeper."""
    folder = UpState(state).fleet
    if not folder.is_dir():
        return []
    files = StateFolder(folder).read_all()
    found = [ProcessMark(file.id, file.supervisor_pid, file.supervisor_started) for file in files]
    return [each for each in found if is_running(each.pid, each.started)]


def _end(processes: Sequence[ProcessMark], seconds: float) -> None:
    for each in processes:
        signal_process(each.pid, each.started, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    for each in processes:
        while is_running(each.pid, each.started):
            if time.monotonic() > deadline:
                raise CommandFailed(f"It still runs after {seconds:g} s, with pid {each.pid}.")
            time.sleep(_LOOK_SECONDS)
