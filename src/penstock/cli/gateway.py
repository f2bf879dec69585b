"""`penstock gateway`: HTTP in, SSE out, until SIGTERM."""

import resource
import signal
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
        run_gateway("penstock.cli.gateway_worker:worker", settings, folder)
    finally:
        if is_ours:
            remove_run_folder(folder)
    if settings.workers == 1:
        # One worker that was told to end has left through the signal; this one gave up by itself.
        raise CommandFailed("The gateway could not start; the log says why.")


def _raise_file_limit() -> None:
    """A stream takes two descriptors, and the usual soft limit of 1,024 is for other programs."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit(0)
