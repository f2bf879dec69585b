"""`penstock stop`: ends a `penstock up` that runs in another terminal, as its Ctrl-C does."""

import signal
import time
from typing import Annotated, Final

import typer

from penstock.cli.exit_codes import CommandFailed
from penstock.cli.options import DEFAULT_STATE, StateOption
from penstock.cli.output import console
from penstock.cli.up.present_run import present_run
from penstock.cli.up.state import UP
from penstock.fleet.processes import is_running, signal_process

_LOOK_SECONDS: Final = 0.1


def stop(
    state: StateOption = DEFAULT_STATE,
    seconds: Annotated[
        float, typer.Option(min=0, help="How long to wait for it to end.", metavar="SECONDS")
    ] = 120.0,
) -> None:
    """End the `penstock up` of this folder in order, and wait until it has ended."""
    up = next(mark for mark in present_run(state).processes if mark.name == UP)
    signal_process(up.pid, up.started, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while is_running(up.pid, up.started):
        if time.monotonic() > deadline:
            raise CommandFailed(f"It still runs after {seconds:g} s, with pid {up.pid}.")
        time.sleep(_LOOK_SECONDS)
    console().print("stopped")
