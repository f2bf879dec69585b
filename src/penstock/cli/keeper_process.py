"""The process of a keeper: its parts, until it is told to end.

`penstock keeper` becomes this module's process where it has no terminal, to drop what only the
command line needs, for as long as a host is kept. Imports neither typer nor rich.
"""

import asyncio
import sys
from collections.abc import Callable

from penstock.app import keeper_parts
from penstock.app.station import Station
from penstock.cli.exit_codes import KNOWN, code_of, line_of
from penstock.cli.keeper_metrics import serve_metrics
from penstock.cli.parent_watch import watch_parent
from penstock.cli.progress import PlainLines
from penstock.cli.stop_signals import StopSignals
from penstock.clock import SystemClock
from penstock.config import Config, load
from penstock.fleet.progress import OnProgress
from penstock.fleet.reconcile import Keeper
from penstock.store import Objects, Sealing, Store
from penstock.telemetry import log
from penstock.telemetry.log_writer import LogWriter, WrittenText

STOP_REPLICAS = "stop-replicas"


def main() -> None:
    """Keep, as the environment says; the arguments are the parent's pid and options."""
    try:
        config = load().config
        writer = log.set_up_service(config.telemetry)
        lines = PlainLines(WrittenText(writer), SystemClock())
        asyncio.run(
            keep(
                config,
                lines.take,
                writer,
                stop_replicas=STOP_REPLICAS in sys.argv,
                parent_pid=int(sys.argv[1]),
            )
        )
    except KNOWN as failed:
        sys.stderr.write(f"error: {line_of(failed)}\n")
        sys.exit(code_of(failed))


async def keep(
    config: Config,
    on_progress: OnProgress,
    writer: LogWriter,
    *,
    stop_replicas: bool,
    parent_pid: int,
) -> None:
    """Run all parts of a keeper until it is told to end."""
    signals = StopSignals()
    clock = SystemClock()
    store = Store(config.store)
    sealing = Sealing(store, config.store, clock)
    objects = Objects(config.store, sealing)
    kept = keeper_parts.keeper(config, store, clock, sealing)
    station = (
        keeper_parts.station(config, store, objects, kept, clock) if config.puller.enabled else None
    )
    announce = keeper_parts.announcing(config, store, clock, station)
    await store.open()
    await objects.open()
    try:
        async with asyncio.TaskGroup() as group:
            drains = config.fleet.drain_at_stop
            keeping = kept.run(
                stop_replicas=stop_replicas or drains, announce=announce, on_progress=on_progress
            )
            running = group.create_task(keeping)
            pulling = group.create_task(_pull(station))
            showing = group.create_task(
                serve_metrics(config.fleet, kept, station, clock, lambda: writer.lines_dropped)
            )
            reporting = group.create_task(keeper_parts.report(config, store))
            leaving = group.create_task(_leave(signals.asked, station, pulling, kept))

            def abandon() -> None:
                pulling.cancel()
                running.cancel()

            # Without its parent, or in a hurry, the keeper leaves its replicas: the next keeper on
            # this folder adopts them, or their supervisors end them after `orphan_seconds`. After a
            # keeper that ends with its engines there is no next one.
            hurrying = (
                _drain(signals, pulling, kept) if drains else _stop_when(signals.hurried, abandon)
            )
            abandoning = group.create_task(hurrying)
            if parent_pid:
                loop = asyncio.get_running_loop()
                watch_parent(parent_pid, lambda: loop.call_soon_threadsafe(abandon))
            await asyncio.wait([running])
            for task in (pulling, showing, reporting, leaving, abandoning):
                task.cancel()
    finally:
        await objects.close()
        await store.close()


async def _pull(station: Station | None) -> None:
    if station is not None:
        await station.run()


async def _leave(
    asked: asyncio.Event, station: Station | None, pulling: asyncio.Task[None], kept: Keeper
) -> None:
    """Stop flex work, then the keeper: jobs that run need their replicas for a while."""
    await asked.wait()
    if station is not None:
        station.stop()
        if station.puller is None:
            # Without a puller no job runs, and the station may be waiting for Postgres.
            pulling.cancel()
    await asyncio.wait([pulling])
    kept.stop()


async def _drain(signals: StopSignals, pulling: asyncio.Task[None], kept: Keeper) -> None:
    """Drain at the first signal, beside flex work that ends; at the second, wait no longer."""
    await signals.asked.wait()
    await kept.drain()
    await signals.hurried.wait()
    pulling.cancel()
    await kept.drain(is_hurried=True)


async def _stop_when(event: asyncio.Event, act: Callable[[], object]) -> None:
    await event.wait()
    act()


if __name__ == "__main__":
    main()
