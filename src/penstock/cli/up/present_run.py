"""Finds the `penstock up` that runs in a state folder now."""

from pathlib import Path

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.up.state import Running, UpState


def present_run(folder: Path) -> Running:
    """Return the facts of the run that holds the folder; refuse if there is none."""
    state = UpState(folder)
    running = state.read_running() if state.is_held else None
    if running is None:
        raise CommandFailed(
            f"Nothing runs in {folder}. Start it with `penstock up`, or name the folder with"
            " --state.",
            ExitCode.NOT_FOUND,
        )
    return running
