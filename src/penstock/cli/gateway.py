"""`penstock gateway`: HTTP in, SSE out, until SIGTERM."""

import contextlib
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import typer

from penstock.cli.exit_codes import CommandFailed
from penstock.cli.options import ParentOption, invocation
from penstock.cli.parent_watch import end_with_parent
from penstock.cli.ports import check_ports
from penstock.cli.postgres import require_dsn
from penstock.config import export
from penstock.ingress.server import make_run_folder, remove_run_folder, run_gateway
from penstock.ingress.settings import Settings
from penstock.telemetry import log

_FAILED = "The gateway could not start; the log says why."


def gateway(context: typer.Context, parent_pid: ParentOption = 0) -> None:
    """Serve requests. SIGTERM stops accepting, lets streams finish, then ends."""
    invoked = invocation(context)
    config = invoked.load().config
    require_dsn(config)
    log.set_up(config.telemetry)
    settings = config.ingress
    ports = {"ingress.port": settings.port, "ingress.metrics_port": settings.metrics_port}
    check_ports(settings.host, ports)
    _raise_file_limit()
    # uvicorn sends itself the signal again at its end: without these, it would end us unswept.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    if parent_pid:
        end_with_parent(parent_pid)
    _serve(settings, invoked.file)


def _serve(settings: Settings, file: Path | None) -> None:
    is_ours = not settings.run_folder
    folder = make_run_folder() if is_ours else Path(settings.run_folder)
    folder.mkdir(parents=True, exist_ok=True)
    # Workers read their own configuration: theirs must be the same as ours.
    export({"ingress.run_folder": str(folder)}, file)
    try:
        with _signal_numbers(is_kept=settings.workers > 1) as received:
            run_gateway("penstock.cli.gateway_worker:worker", settings, folder)
    except SystemExit as left:
        # uvicorn's own code for a failed start is the one that stands for Postgres here.
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
    """The signals that came meanwhile, after the block.

    uvicorn's parent of several workers returns in the same way when it was told to end and when
    its workers could not start. One worker alone needs the wake-up for its own loop, and leaves by
    an exception.
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


def _raise_file_limit() -> None:
    """A stream takes two descriptors, and the usual soft limit of 1,024 is for other programs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
