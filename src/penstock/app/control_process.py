"""Runs a control process: its loops, and the listener for operators."""

import asyncio

from penstock.app.control import ControlLoops
from penstock.app.operator_rooms import operator_rooms
from penstock.app.this_process import this_worker
from penstock.catalogue import load_catalogue
from penstock.clock import Clock, new_id
from penstock.config import Config
from penstock.console.operator_listener import listen
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
            rooms = operator_rooms(store, config, clock, lambda: load_catalogue(config.catalogue))
            group.create_task(listen(rooms, config.control, clock))
