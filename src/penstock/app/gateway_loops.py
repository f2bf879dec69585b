"""Opens a gateway worker's rooms, and runs the loops beside the request path until it ends."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from penstock.app import heap
from penstock.app.gateway_rooms import GatewayRooms
from penstock.app.this_process import this_worker
from penstock.errors import StoreUnavailable
from penstock.fleet.workers import WorkerTable, left_out_facts
from penstock.metering.journal_folder import claim_folder

_FLUSH_SECONDS: Final = 0.2
_TICK_SECONDS: Final = 0.02
_IDLE_TICK_SECONDS: Final = 0.2
_ADOPT_FIRST_SECONDS: Final = 20.0


@contextlib.asynccontextmanager
async def running(rooms: GatewayRooms) -> AsyncIterator[None]:
    """Open and load the rooms, and run the loops until the block ends."""
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
                group.create_task(rooms.contracts.run()),
                group.create_task(rooms.roster.run()),
                group.create_task(rooms.waiting_reports.run()),
                group.create_task(rooms.prober.run()),
                group.create_task(rooms.limits.run()),
                group.create_task(rooms.drain.run()),
                group.create_task(rooms.flex.waits.run()),
                group.create_task(rooms.feed.run()),
                group.create_task(rooms.figures.run()),
                group.create_task(rooms.batches.intake.run()),
                group.create_task(rooms.sessions.tenures.run()),
                group.create_task(rooms.sessions.turns.run()),
                group.create_task(exchange.run()),
                group.create_task(_follow(rooms)),
                group.create_task(_tick(rooms)),
                group.create_task(heap.keep_small()),
                group.create_task(_report(rooms)),
            ]
            if rooms.tracing is not None:
                loops.append(group.create_task(rooms.tracing.export.run()))
            yield
            for loop in loops:
                loop.cancel()
    finally:
        await _close(rooms)


async def _load(rooms: GatewayRooms) -> None:
    await rooms.keys.load()
    await rooms.contracts.load()
    await rooms.roster.load()
    rooms.objects.check_hosts(len({replica.host for replica in rooms.roster.all()}))
    await rooms.limits.load()
    rooms.storage.stores_by_default = await rooms.sessions.responses.stores_by_default()
    claim_folder(Path(rooms.config.metering.journal_folder), rooms.keys.cell_mark())
    # Drain the journals of this host's dead workers first, which frees their leases. The drain's
    # loop does what takes longer than this timeout.
    with contextlib.suppress(StoreUnavailable, TimeoutError):
        async with asyncio.timeout(_ADOPT_FIRST_SECONDS):
            await rooms.drain.adopt()


async def _report(rooms: GatewayRooms) -> None:
    """Report this worker among the cell's processes until cancelled."""
    ingress = rooms.config.ingress
    address = f"{ingress.host}:{ingress.port}"
    me = this_worker(rooms.config, "gateway", rooms.holder, address)
    await WorkerTable(rooms.store).keep(me, lambda: _facts(rooms))


def _facts(rooms: GatewayRooms) -> dict[str, str | int]:
    """Return the set of contracts that this worker decides by, and which replicas it leaves out."""
    contracts = rooms.contracts
    facts: dict[str, str | int] = {"contract_set": contracts.number}
    if contracts.problem:
        # Why it does not decide by a newer set.
        facts["contract_problem"] = contracts.problem
    return {**facts, **left_out_facts(rooms.router.ejections.reasons)}


async def _close(rooms: GatewayRooms) -> None:
    rooms.wheel.stop()
    rooms.clients.close()
    rooms.reading.close()
    rooms.request_log.flush()
    if rooms.tracing is not None:
        await rooms.tracing.export.finish()
    if rooms.is_loaded:
        await rooms.flex.waits.finish()
        await rooms.drain.finish()
    else:
        # The journal is empty, and repeated failed starts must not fill the disk with folders.
        rooms.journal.remove()
    if rooms.table is not None:
        rooms.table.close()
    await rooms.objects.close()
    await rooms.store.close()


async def _tick(rooms: GatewayRooms) -> None:
    """Let the router sort replicas by load at intervals, off the request path."""
    router = rooms.router
    while True:
        router.tick(rooms.clock.monotonic())
        is_asked = router.was_asked()
        await asyncio.sleep(_TICK_SECONDS if is_asked else _IDLE_TICK_SECONDS)


async def _follow(rooms: GatewayRooms) -> None:
    """Pass on roster changes and free slots, and write the buffered log lines."""
    seen = -1
    hosts: set[str] = set()
    while True:
        if rooms.roster.version != seen:
            seen = rooms.roster.version
            replicas = rooms.roster.all()
            hosts = {replica.host for replica in replicas}
            rooms.clients.keep_only(replicas)
            rooms.router.keep_only(replicas)
            rooms.metrics.replicas.keep_only({replica.id for replica in replicas})
            if rooms.table is not None:
                rooms.table.keep_only([replica.id for replica in replicas])
        # Even if the roster is the same: an ejected replica that was restored has slots again.
        rooms.gate.capacity_changed()
        now = rooms.clock.monotonic()
        rooms.gate.measure(now)
        exchange = rooms.exchange
        rooms.reach.note(hosts, now, is_up=exchange is not None and exchange.is_up)
        rooms.request_log.flush()
        await asyncio.sleep(_FLUSH_SECONDS)
