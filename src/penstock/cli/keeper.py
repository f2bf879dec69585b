"""`penstock keeper`: launches, attaches and watches this host's replicas, until SIGTERM."""

import asyncio
import contextlib
import os
import sys
from typing import Annotated

import typer

from penstock.cli.keeper_process import STOP_REPLICAS, keep
from penstock.cli.options import JsonOption, ParentOption, invocation
from penstock.cli.output import error_console, print_json
from penstock.cli.postgres import require_dsn
from penstock.cli.progress import ProgressLine
from penstock.clock import SystemClock
from penstock.config import export
from penstock.fleet.progress import ReplicaProgress
from penstock.telemetry import log


def keeper(
    context: typer.Context,
    stop_replicas: Annotated[
        bool,
        typer.Option("--stop-replicas", help="Drain and stop the replicas too, when told to end."),
    ] = False,
    parent_pid: ParentOption = 0,
    json: JsonOption = False,
) -> None:
    """Keep the replicas of this host. They outlive it, unless --stop-replicas is given."""
    invoked = invocation(context)
    config = invoked.load().config
    require_dsn(config)
    console = error_console()
    if not json and not console.is_terminal:
        export({}, invoked.file)
        options = [STOP_REPLICAS] if stop_replicas else []
        # -P: the keeper must not import modules of the working folder.
        program = [sys.executable, "-P", "-m", "penstock.cli.keeper_process", str(parent_pid)]
        os.execv(sys.executable, [*program, *options])  # noqa: S606 - ourselves, by our own name
    writer = log.set_up_service(config.telemetry)
    with ProgressLine(console, SystemClock()) as line:
        on_progress = _print_progress if json else line.take
        keeping = keep(
            config, on_progress, writer, stop_replicas=stop_replicas, parent_pid=parent_pid
        )
        asyncio.run(keeping)


def _print_progress(news: ReplicaProgress) -> None:
    # The reader of this output may be gone, which must not end the keeper.
    with contextlib.suppress(OSError):
        print_json(news)
