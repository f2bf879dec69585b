"""Builds a keeper's parts: the keeper, the station that runs flex work, and the signals."""

import asyncio
import logging
from typing import Final

from penstock.app.job_rooms import background_responses, desk_rooms, job_desk
from penstock.app.station import Station, StationRooms, StationSettings
from penstock.app.this_process import host_name, this_worker
from penstock.app.trace_parts import TraceParts
from penstock.catalogue import load_catalogue
from penstock.clock import Clock, new_id
from penstock.config import Config
from penstock.errors import StoreUnavailable
from penstock.fleet.health import EngineProbe
from penstock.fleet.reconcile import Announce, Keeper
from penstock.fleet.roster import RosterMirror
from penstock.fleet.workers import WorkerTable
from penstock.policy import cell_mark, read_cell_secret, signal_key
from penstock.signals import (
    Announcer,
    CellKey,
    Engines,
    KeeperGossipLoops,
    Reach,
    keeper_identity,
)
from penstock.store import Objects, Sealing, Store

_HOSTS_SECONDS: Final = 1.0

logger = logging.getLogger(__name__)


def keeper(config: Config, store: Store, clock: Clock, sealing: Sealing | None = None) -> Keeper:
    """Build the keeper of one engine host; raises for a wrong wanted replica or recipe."""
    probe = EngineProbe(
        config.fleet, api_keys=config.engine.api_keys, ca_file=config.engine.ca_file
    )
    catalogue = load_catalogue(config.catalogue)
    return Keeper(config.fleet, catalogue, store, clock, probe=probe, sealing=sealing)


def station(config: Config, store: Store, objects: Objects, kept: Keeper, clock: Clock) -> Station:
    """Build the station that runs flex work on the replicas of one keeper."""
    jobs = desk_rooms(store, objects, config)
    desk = job_desk(jobs, config, clock)
    host = host_name(config)

    async def check_objects() -> None:
        roster = RosterMirror(store, clock, config.fleet)
        await roster.load()
        objects.check_hosts(len({host, *(replica.host for replica in roster.all())}))

    catalogue = load_catalogue(config.catalogue)
    rooms = StationRooms(
        store,
        jobs.queue,
        jobs.values,
        background_responses(jobs, config, clock),
        desk,
        catalogue,
        TraceParts.build(config, clock, "keeper", new_id()),
        check_objects,
    )
    settings = StationSettings(
        puller=config.puller,
        admission=config.admission,
        contracts=config.contracts,
        engine=config.engine,
        metering=config.metering,
        policy=config.policy,
        routing=config.routing,
        serving=config.serving,
    )
    return Station(settings, rooms, kept, clock)


def announcing(
    config: Config, store: Store, clock: Clock, station: Station | None = None
) -> Announce:
    """Return a keeper's loop that publishes engines' claims; with a station it also receives."""

    async def announce(keeper_id: str, engines: Engines) -> None:
        if station is not None:
            station.take_name(keeper_id)
        cell = await _cell_key(config, store)
        who, how = keeper_identity(keeper_id), config.signals
        line: Announcer | KeeperGossipLoops
        if station is None:
            line = Announcer(who, cell, how, clock, engines)
        else:
            told = station.told(engines)
            line = KeeperGossipLoops(who, cell, how, clock, station.router, told)
        roster = RosterMirror(store, clock, config.fleet)
        async with asyncio.TaskGroup() as group:
            group.create_task(roster.run())
            group.create_task(_watch_hosts(config, roster, clock, line))
            if how.transport != "off":
                group.create_task(line.run())

    return announce


async def report(config: Config, store: Store) -> None:
    """Report this process among the cell's workers until cancelled."""
    await WorkerTable(store).keep(this_worker(config, "keeper", new_id()))


async def _watch_hosts(
    config: Config, roster: RosterMirror, clock: Clock, line: Announcer | KeeperGossipLoops
) -> None:
    """Log when the roster has a host that this keeper's signals do not reach, until cancelled."""
    reach = Reach(config.signals, host_name(config))
    while True:
        hosts = {replica.host for replica in roster.all()}
        reach.note(hosts, clock.monotonic(), is_up=line.is_up)
        await asyncio.sleep(_HOSTS_SECONDS)


async def _cell_key(config: Config, store: Store) -> CellKey:
    """Read the cell's key, which never changes; retry while Postgres is unavailable."""
    while True:
        try:
            async with store.transaction() as transaction:
                secret = await read_cell_secret(transaction)
        except StoreUnavailable:
            logger.warning("keeper is not heard yet", extra={"action": "keeper_not_heard"})
            await asyncio.sleep(config.store.reconnect_seconds)
        else:
            return CellKey(cell_mark(secret), signal_key(secret))
