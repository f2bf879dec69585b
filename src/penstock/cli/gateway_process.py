"""The gateway's own process, which `penstock gateway` becomes. Imports neither typer nor rich.

Workers start by importing this module again, so each of them loads everything that it imports.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from penstock.cli.exit_codes import KNOWN, CommandFailed, code_of, line_of
from penstock.cli.parent_watch import end_with_parent
from penstock.config import export, load
from penstock.ingress.server import make_run_folder, remove_run_folder, run_gateway
from penstock.ingress.settings import IngressSettings
from penstock.telemetry import log

_FAILED = "The gateway could not start; the log says why."


def main() -> None:
    """Serve, with the environment's configuration; the argument is the parent's pid."""
    try:
        _start()
    except KNOWN as failed:
        sys.stderr.write(f"error: {line_of(failed)}\n")
        sys.exit(code_of(failed))


def _start() -> None:
    config = load().config
    log.set_up_service(config.telemetry)
    # uvicorn raises the signal again at its end; the default handler would skip the clean-up.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    parent_pid = int(sys.argv[1])
    if parent_pid:
        end_with_parent(parent_pid)
    _serve(config.ingress)


def _serve(settings: IngressSettings) -> None:
    is_ours = not settings.run_folder
    folder = make_run_folder() if is_ours else Path(settings.run_folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Workers load the configuration themselves, and must find the same folder in it.
    export({"ingress.run_folder": str(folder)})
    try:
        with _signal_numbers(is_kept=settings.workers > 1) as received:
            run_gateway("penstock.cli.gateway_worker:worker", settings, folder)
    except SystemExit as left:
        # uvicorn's exit code for a failed start, 3, means a missing Postgres here.
        if left.code:
            raise CommandFailed(_FAILED) from None
        raise
    finally:
        if is_ours:
            remove_run_folder(folder)
    if not {signal.SIGTERM, signal.SIGINT} & set(received):
        raise CommandFailed(_FAILED)


@contextlib.contextmanager
def _signal_numbers(*, is_kept: bool) -> Iterator[list[int]]:
    """Collect the signals that arrive during the block; the list is filled after it.

    uvicorn's parent of several workers returns in the same way after a signal and if its workers
    cannot start. A single worker needs the wake-up descriptor for its own loop, and ends by an
    exception.
    """
    numbers: list[int] = []
    if not is_kept:
        yield numbers
        return
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    os.set_blocking(receiver, False)
    before = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    try:
        yield numbers
    finally:
        signal.set_wakeup_fd(before)
        with contextlib.suppress(BlockingIOError):
            numbers += os.read(receiver, 4096)
        os.close(receiver)
        os.close(sender)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)


if __name__ == "__main__":
    main()
