"""Opens a gateway worker's rooms, and runs the loops beside the request path until it ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from penstock.app import heap
from penstock.app.gateway_rooms import GatewayRooms
from penstock.errors import StoreUnavailable
from penstock.metering.journal_folder import claim_folder

_FLUSH_SECONDS: Final = 0.2
_TICK_SECONDS: Final = 0.02
_IDLE_TICK_SECONDS: Final = 0.2
_ADOPT_FIRST_SECONDS: Final = 20.0


@contextlib.asynccontextmanager
async def running(rooms: GatewayRooms) -> AsyncIterator[None]:
    """Open, load, and keep the loops going until the block ends."""
    await rooms.store.open()
    await rooms.objects.open()
    try:
        await _load(rooms)
        exchange = rooms.open_exchange()
        rooms.is_loaded = True
        rooms.wheel.start()
        async with asyncio.TaskGroup() as group:
            loops = [
                group.create_task(rooms.keys.run()),
                group.create_task(rooms.roster.run()),
                group.create_task(rooms.prober.run()),
                group.create_task(rooms.limits.run()),
                group.create_task(rooms.drain.run()),
                group.create_task(rooms.flex.waits.run()),
                group.create_task(rooms.feed.run()),
                group.create_task(rooms.figures.run()),
                group.create_task(rooms.batches.intake.run()),
                group.create_task(exchange.run()),
                group.create_task(_follow(rooms)),
                group.create_task(_tick(rooms)),
                group.create_task(heap.keep_small()),
            ]
            yield
            for loop in loops:
                loop.cancel()
    finally:
        await _close(rooms)


async def _load(rooms: GatewayRooms) -> None:
    await rooms.keys.load()
    await rooms.roster.load()
    rooms.objects.check_hosts(len({replica.host for replica in rooms.roster.all()}))
    await rooms.limits.load()
    claim_folder(Path(rooms.config.metering.journal_folder), rooms.keys.cell_mark())
    # Settle what dead workers of this host left, so that their leases are free. What takes longer
    # is done beside the first requests.
    with contextlib.suppress(StoreUnavailable, TimeoutError):
        async with asyncio.timeout(_ADOPT_FIRST_SECONDS):
            await rooms.drain.adopt()


async def _close(rooms: GatewayRooms) -> None:
    rooms.wheel.stop()
    rooms.clients.close()
    rooms.reading.close()
    rooms.request_log.flush()
    if rooms.is_loaded:
        await rooms.flex.waits.finish()
        await rooms.drain.finish()
    else:
        # Nothing was begun: a start that fails again and again must not fill the disk.
        rooms.journal.remove()
    if rooms.table is not None:
        rooms.table.close()
    await rooms.objects.close()
    await rooms.store.close()


async def _tick(rooms: GatewayRooms) -> None:
    """Sort the replicas by load beside the request path, not on it."""
    router = rooms.router
    while True:
        router.tick(rooms.clock.monotonic())
        is_asked = router.was_asked()
        await asyncio.sleep(_TICK_SECONDS if is_asked else _IDLE_TICK_SECONDS)


async def _follow(rooms: GatewayRooms) -> None:
    """Pass on changes of the roster, and write the log lines that have gathered."""
    seen = -1
    hosts: set[str] = set()
    while True:
        if rooms.roster.version != seen:
            seen = rooms.roster.version
            replicas = rooms.roster.all()
            hosts = {replica.host for replica in replicas}
            rooms.clients.keep_only(replicas)
            rooms.router.keep_only(replicas)
            if rooms.table is not None:
                rooms.table.keep_only([replica.id for replica in replicas])
        # Also without a change: an ejected replica that was restored has slots again.
        rooms.gate.capacity_changed()
        now = rooms.clock.monotonic()
        rooms.gate.measure(now)
        exchange = rooms.exchange
        rooms.reach.note(hosts, now, is_up=exchange is not None and exchange.is_up)
        rooms.request_log.flush()
        await asyncio.sleep(_FLUSH_SECONDS)
