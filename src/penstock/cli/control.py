"""`penstock control`: runs a cell's control loops and operator's API until SIGTERM."""

import asyncio

import typer

from penstock.app.control_process import run_control
from penstock.cli.options import ParentOption, invocation
from penstock.cli.parent_watch import end_with_parent
from penstock.cli.postgres import require_dsn
from penstock.cli.stop_signals import StopSignals
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.store import Store
from penstock.telemetry import log


def control(context: typer.Context, parent_pid: ParentOption = 0) -> None:
    """Tend the queue, tell of events, serve operators. Run several: one leads, all serve."""
    config = invocation(context).load().config
    require_dsn(config)
    log.set_up_service(config.telemetry)
    asyncio.run(_run(config, parent_pid))


async def _run(config: Config, parent_pid: int) -> None:
    signals = StopSignals()
    if parent_pid:
        end_with_parent(parent_pid)
    store = Store(config.store)
    await store.open()
    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(run_control(config, store, SystemClock()))
            await signals.asked.wait()
            running.cancel()
    finally:
        await store.close()
