"""Runs a control process: its loops, and the listener for operators."""

import asyncio

import msgspec

from penstock.app.control import ControlLoops
from penstock.app.operator_rooms import operator_rooms
from penstock.app.this_process import this_worker
from penstock.catalogue import CatalogueReader
from penstock.clock import Clock, new_id
from penstock.config import Config
from penstock.console.operator_listener import listen
from penstock.console.rooms import OperatorRooms
from penstock.console.screens.console_pages import ConsolePages
from penstock.fleet.workers import WorkerTable
from penstock.store import Store


async def run_control(config: Config, store: Store, clock: Clock) -> None:
    """Run until cancelled, on an open store."""
    address = f"{config.control.host}:{config.control.port}"
    me = this_worker(config, "control", new_id(), address)
    async with asyncio.TaskGroup() as group:
        group.create_task(ControlLoops(config, store, clock).run())
        group.create_task(WorkerTable(store).keep(me))
        if config.control.port:
            group.create_task(_serve(config, store, clock))


async def _serve(config: Config, store: Store, clock: Clock) -> None:
    """Serve the operator's API, and the console's pages on connections of their own."""

    catalogue = CatalogueReader(config.catalogue)

    def rooms_on(store: Store) -> OperatorRooms:
        return operator_rooms(store, config, clock, catalogue.read)

    control = config.control
    if not control.console:
        await listen(rooms_on(store), control, clock, None)
        return
    of_pages = Store(
        msgspec.structs.replace(
            config.store,
            pool_size_min=min(config.store.pool_size_min, control.console_connections),
            pool_size_max=control.console_connections,
            statement_seconds=control.console_statement_seconds,
            # A server that hangs keeps no statement's time; then the connection is cut.
            transaction_seconds=control.console_statement_seconds,
        )
    )
    await of_pages.open()
    try:
        console = ConsolePages(rooms_on(of_pages), control, clock)
        await listen(rooms_on(store), control, clock, console)
    finally:
        await of_pages.close()
