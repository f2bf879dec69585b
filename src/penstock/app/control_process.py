"""Runs a control process: its loops, and the listener for operators."""

import asyncio
import os
import socket

from penstock.app.control import ControlLoops
from penstock.app.operator_rooms import operator_rooms
from penstock.app.process_version import process_version
from penstock.catalogue import load_catalogue
from penstock.clock import Clock, new_id
from penstock.config import Config
from penstock.console.operator_listener import listen
from penstock.fleet.workers import Worker, WorkerTable
from penstock.store import Store


async def run_control(config: Config, store: Store, clock: Clock) -> None:
    """Run until cancelled, on an open store."""
    me = Worker(
        new_id(),
        "control",
        config.fleet.host or socket.gethostname(),
        process_version(),
        {"pid": os.getpid(), "address": f"{config.control.host}:{config.control.port}"},
    )
    async with asyncio.TaskGroup() as group:
        group.create_task(ControlLoops(config, store, clock).run())
        group.create_task(WorkerTable(store).keep(me))
        if config.control.port:
            rooms = operator_rooms(store, config, clock, lambda: load_catalogue(config.catalogue))
            group.create_task(listen(rooms, config.control, clock))
