"""`penstock keeper`: launches, attaches and watches this host's replicas, until SIGTERM."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Annotated

import typer

from penstock import app
from penstock.cli.options import JsonOption, ParentOption, invocation
from penstock.cli.output import error_console, print_json
from penstock.cli.parent_watch import watch_parent
from penstock.cli.postgres import require_dsn
from penstock.cli.progress import ProgressLine
from penstock.cli.stop_signals import StopSignals
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.fleet.progress import OnProgress, ReplicaProgress
from penstock.store import Store
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
    config = invocation(context).load().config
    require_dsn(config)
    log.set_up(config.telemetry)
    with ProgressLine(error_console(), SystemClock()) as line:
        on_progress = _print_progress if json else line.take
        asyncio.run(_keep(config, on_progress, stop_replicas=stop_replicas, parent_pid=parent_pid))


async def _keep(
    config: Config, on_progress: OnProgress, *, stop_replicas: bool, parent_pid: int
) -> None:
    signals = StopSignals()
    store = Store(config.store)
    kept = app.keeper(config, store, SystemClock(), on_progress)
    announce = app.announcing(config, store, SystemClock())
    await store.open()
    try:
        async with asyncio.TaskGroup() as group:
            keeping = kept.run(stop_replicas=stop_replicas, announce=announce)
            running = group.create_task(keeping)
            leaving = group.create_task(_stop_when(signals.asked, kept.stop))
            # Nobody is left who wants the replicas ended in order: the next keeper on this folder
            # adopts them, or their supervisors end them after `orphan_seconds`.
            abandoning = group.create_task(_stop_when(signals.hurried, running.cancel))
            if parent_pid:
                loop = asyncio.get_running_loop()
                watch_parent(parent_pid, lambda: loop.call_soon_threadsafe(running.cancel))
            await asyncio.wait([running])
            leaving.cancel()
            abandoning.cancel()
    finally:
        await store.close()


async def _stop_when(event: asyncio.Event, act: Callable[[], object]) -> None:
    await event.wait()
    act()


def _print_progress(news: ReplicaProgress) -> None:
    # Whoever read this may be gone; the replicas matter more.
    with contextlib.suppress(OSError):
        print_json(news)
