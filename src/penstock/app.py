"""The composition root: the only file that builds rooms and joins them."""

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypedDict

from starlette.applications import Starlette

from penstock.admission import Gate, Limits, LostLeases, release_holder
from penstock.catalogue import load_catalogue
from penstock.clock import Clock, SystemClock, TimerWheel, new_id
from penstock.config import Config, load
from penstock.errors import StoreUnavailable
from penstock.fleet.health import EngineProbe
from penstock.fleet.progress import OnProgress
from penstock.fleet.reaper import Reaper
from penstock.fleet.reconcile import Announce, Keeper
from penstock.fleet.roster import RosterMirror
from penstock.ingress.endings import Endings
from penstock.ingress.health import HealthPages
from penstock.ingress.hot import HotDoor
from penstock.ingress.metrics_page import hand_out
from penstock.ingress.model_pages import ModelPages
from penstock.ingress.pages import Pages, build_pages
from penstock.ingress.reading import RequestReader
from penstock.ingress.routing_pages import RoutingPages
from penstock.ingress.usage_pages import UsagePages
from penstock.metering import Drain, Journal, Ledger, Metering, PriceBook, Refusals, Retention
from penstock.metering.journal_folder import claim_folder
from penstock.metering.reports.usage_reports import UsageReports
from penstock.policy import AccountBook, KeyMirror, cell_mark, read_cell_secret, signal_key
from penstock.records.limit import Measure, Period, Scope
from penstock.records.signal import EngineClaim, PeerState
from penstock.routing import Router
from penstock.serving.explanation import Explainer
from penstock.serving.fleet_clients import FleetClients
from penstock.serving.probing import Prober
from penstock.serving.request_path import Meters, RequestPath, Stages
from penstock.serving.routing_counts import count_routing
from penstock.signals import (
    Announcer,
    CellKey,
    Exchange,
    keeper_identity,
    open_table,
    worker_identity,
)
from penstock.store import HeldLock, Store
from penstock.telemetry import log
from penstock.telemetry.metrics import Gauges, Metrics, Snapshot
from penstock.telemetry.request_log import RequestLog

_FLUSH_SECONDS = 0.2
_TICK_SECONDS = 0.02
_COLLECT_EVERY = 20_000
_CONTROL_LOCK = "control"
_ADOPT_FIRST_SECONDS = 20.0

logger = logging.getLogger(__name__)


class WorkerState(TypedDict):
    """What the client's protocol finds in uvicorn's application state."""

    door: HotDoor


class GatewayWorker:
    """All the rooms of one gateway worker, built once."""

    def __init__(self, config: Config, clock: Clock, meters: Meters | None = None) -> None:
        """`meters` takes the journal's place where a benchmark leaves metering out."""
        self.config = config
        self.catalogue = load_catalogue(config.catalogue)
        self.store = Store(config.store)
        self.keys = KeyMirror(self.store, clock, config.policy)
        self.roster = RosterMirror(self.store, clock, config.fleet)
        self.wheel = TimerWheel(clock)
        self.clock = clock
        self.table = open_table(config.signals, clock.monotonic())
        self.identity = worker_identity(self.table)
        self.router = Router(self.roster, config.routing, self.table, self.identity.host)
        self.clients = FleetClients(config.engine, self.wheel, clock)
        self.gate = Gate(self.router, config.admission, self.wheel)
        self.prober = Prober(self.router, self.clients, clock)
        self.metrics = Metrics(config.telemetry.label_pairs_max)
        self.request_log = RequestLog(is_on=config.telemetry.log_requests)
        holder = new_id()
        self.limits = Limits(self.store, clock, config.admission, holder)
        self.journal = Journal(Path(config.metering.journal_folder), holder, config.metering)
        refusals = Refusals(self.store, config.metering.refusals_max)
        ledger = Ledger(self.store, config.metering.workflows_max)
        self.drain = Drain(self.journal, ledger, refusals, config.metering, self._release)
        endings = Endings(self.metrics, self.request_log, refusals, clock)
        stages = Stages(
            limits=self.limits,
            gate=self.gate,
            router=self.router,
            clients=self.clients,
            meters=meters or Metering(self.journal, clock),
        )
        path = RequestPath(stages, config.serving, clock)
        reader = RequestReader(
            self.catalogue,
            self.keys,
            PriceBook(self.catalogue.models),
            config.ingress,
        )
        self.door = HotDoor(reader, path, endings, config.ingress, self.wheel, clock)
        self.door.write_buffer_bytes = config.engine.write_buffer_bytes
        health = HealthPages(
            {
                "keys_loaded": lambda: self.is_loaded,
                "replica_ready": lambda: any(
                    self.roster.ready(m.id) for m in self.catalogue.models
                ),
            }
        )
        self.pages = Pages(
            models=ModelPages(reader, self.catalogue, self.roster.wanted_models, clock),
            usage=UsagePages(reader, UsageReports(self.store, config.metering), clock),
            health=health,
            routing=RoutingPages(
                reader,
                Explainer(self.router, config.routing, self._peers),
                AccountBook(self.store).find,
                clock,
            ),
        )
        self.exchange: Exchange | None = None
        self.is_loaded = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open, load, and keep the loops beside the path going until the block ends."""
        await self.store.open()
        try:
            await self.keys.load()
            await self.roster.load()
            await self.limits.load()
            claim_folder(Path(self.config.metering.journal_folder), self.keys.cell_mark())
            await self._adopt_first()
            exchange = self._exchange()
            self.is_loaded = True
            self.wheel.start()
            async with asyncio.TaskGroup() as group:
                loops = [
                    group.create_task(self.keys.run()),
                    group.create_task(self.roster.run()),
                    group.create_task(self.prober.run()),
                    group.create_task(self.limits.run()),
                    group.create_task(self.drain.run()),
                    group.create_task(exchange.run()),
                    group.create_task(self._follow()),
                    group.create_task(self._tick()),
                ]
                yield
                for loop in loops:
                    loop.cancel()
        finally:
            self.wheel.stop()
            self.clients.close()
            self.request_log.flush()
            if self.is_loaded:
                await self.drain.finish()
            else:
                # Nothing was begun: a start that fails again and again must not fill the disk.
                self.journal.remove()
            if self.table is not None:
                self.table.close()
            await self.store.close()

    def _exchange(self) -> Exchange:
        cell = CellKey(self.keys.cell_mark(), self.keys.signal_key())
        exchange = Exchange(
            self.identity, cell, self.config.signals, self.clock, self.router, self.table
        )
        self.exchange = exchange
        return exchange

    def _peers(self) -> PeerState:
        return PeerState.ALONE if self.exchange is None else self.exchange.state

    async def _tick(self) -> None:
        """Who is least loaded is sorted out beside the path, not on it."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            self.router.tick(self.clock.monotonic())

    async def _adopt_first(self) -> None:
        """Settle what dead workers of this host left, so that their leases are free; for a while.

        What takes longer is done beside the first requests.
        """
        with contextlib.suppress(StoreUnavailable, TimeoutError):
            async with asyncio.timeout(_ADOPT_FIRST_SECONDS):
                await self.drain.adopt()

    async def _release(self, holder: str) -> None:
        async with self.store.transaction() as transaction:
            await release_holder(transaction, holder)

    def snapshot(self) -> Snapshot:
        ready = {m.id: len(self.roster.ready(m.id)) for m in self.catalogue.models}
        gauges = Gauges(
            waiting={str(model): count for model, count in self.gate.waiting().items()},
            ready_replicas={str(model): count for model, count in ready.items() if count},
            ejected_replicas=len(self.router.ejections),
            client_connections=self.door.connections,
            engine_connections=self.clients.open_connections(),
            sums=self._sums(),
            limits={
                "penstock_limit_refusals_total": _by_kind(self.limits.refusals),
                "penstock_limit_warnings_total": _by_kind(self.limits.warnings),
            },
        )
        count_routing(gauges, self.router, self.exchange)
        return self.metrics.snapshot(gauges)

    def _sums(self) -> dict[str, int]:
        return {
            "penstock_leases_held": self.limits.leases_held,
            "penstock_lease_round_trips_total": self.limits.lease_round_trips,
            "penstock_beyond_leases_total": self.limits.beyond_leases,
            "penstock_journal_bytes": self.journal.bytes_held(),
            "penstock_journal_refusals_total": self.journal.refused,
            "penstock_journals_adopted_total": self.drain.adopted,
            "penstock_ledger_rows_total": self.drain.rows_written,
            "penstock_ledger_unwritable_total": self.drain.rows_unwritable,
            "penstock_drain_failures_total": self.drain.failures,
        }

    async def _follow(self) -> None:
        """Pass on what the roster learned, and write the log lines that have gathered."""
        seen = -1
        while True:
            if self.roster.version != seen:
                seen = self.roster.version
                replicas = self.roster.all()
                self.clients.keep_only(replicas)
                self.router.keep_only(replicas)
                if self.table is not None:
                    self.table.keep_only([replica.id for replica in replicas])
            # Also without news: an ejected replica that was restored has slots again.
            self.gate.capacity_changed()
            self.request_log.flush()
            await asyncio.sleep(_FLUSH_SECONDS)


def _by_kind(counts: Mapping[tuple[Scope, Measure, Period], int]) -> dict[str, int]:
    return {" ".join(kind): count for kind, count in counts.items()}


def gateway(meters: Meters | None = None) -> Starlette:
    """What each gateway worker runs: uvicorn calls this in the worker's own process."""
    config = load().config
    log.set_up(config.telemetry)
    worker = GatewayWorker(config, SystemClock(), meters)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[WorkerState]:
        try:
            async with worker.running():
                _calm_collector()
                server = await hand_out(worker.snapshot, Path(config.ingress.run_folder))
                try:
                    yield WorkerState(door=worker.door)
                finally:
                    server.close()
        except BaseException:
            if worker.is_loaded:
                # A loop has failed. uvicorn would go on serving without any of them: no drain, no
                # limits, no revocations. End, and let whoever started us start another.
                logger.exception("gateway worker gives up", extra={"action": "worker_gives_up"})
                signal.raise_signal(signal.SIGTERM)
            raise

    return build_pages(worker.pages, config.ingress, lifespan)


def _calm_collector() -> None:
    """Leave what start-up built out of every later collection, and collect less often.

    The path makes almost no cycles; with Python's defaults a collection every 700 objects, and a
    full one over the whole heap now and then, took about a fifth of a small request's CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY, 20, 100)


def keeper(
    config: Config, store: Store, clock: Clock, on_progress: OnProgress | None = None
) -> Keeper:
    """The keeper of one engine host; a wrong want or recipe is refused here."""
    probe = EngineProbe(
        config.fleet, api_keys=config.engine.api_keys, ca_file=config.engine.ca_file
    )
    catalogue = load_catalogue(config.catalogue)
    return Keeper(config.fleet, catalogue, store, clock, probe=probe, on_progress=on_progress)


def announcing(config: Config, store: Store, clock: Clock) -> Announce:
    """How a keeper tells the gateways what its engines say."""

    async def announce(keeper_id: str, engines: Callable[[float], Sequence[EngineClaim]]) -> None:
        if config.signals.transport == "off":
            return
        cell = await _cell_key(config, store)
        identity = keeper_identity(keeper_id)
        await Announcer(identity, cell, config.signals, clock, engines).run()

    return announce


async def _cell_key(config: Config, store: Store) -> CellKey:
    """Read once: it never changes. While Postgres is away the keeper keeps its replicas."""
    while True:
        try:
            async with store.transaction() as transaction:
                secret = await read_cell_secret(transaction)
        except StoreUnavailable:
            logger.warning("keeper is not heard yet", extra={"action": "keeper_not_heard"})
            await asyncio.sleep(config.store.reconnect_seconds)
        else:
            return CellKey(cell_mark(secret), signal_key(secret))


class Control:
    """One leader among any number of these: it gives up what is lost, and drops what is old."""

    def __init__(self, config: Config, store: Store, clock: Clock) -> None:
        self._settings = config.store
        self._store = store
        self._reaper = Reaper(store, clock, config.fleet)
        self._retention = Retention(store, clock, config.metering)
        self._lost_leases = LostLeases(store, config.admission)
        self.is_leading = False

    async def run(self) -> None:
        """Wait for the leadership, lead while it lasts, wait again; until cancelled."""
        while True:
            try:
                async with self._store.hold_lock(_CONTROL_LOCK) as lock:
                    await self._lead(lock)
            except StoreUnavailable:
                logger.warning("control cannot reach postgres", extra={"action": "control_waits"})
            await asyncio.sleep(self._settings.lock_poll_seconds)

    async def _lead(self, lock: HeldLock) -> None:
        self.is_leading = True
        logger.info("control leads", extra={"action": "control_leads"})
        try:
            async with asyncio.TaskGroup() as group:
                loops = [
                    group.create_task(self._reaper.run()),
                    group.create_task(self._retention.run()),
                    group.create_task(self._lost_leases.run()),
                ]
                is_held = True
                while is_held:
                    await asyncio.sleep(self._settings.lock_ping_seconds)
                    is_held = await lock.still_held()
                for loop in loops:
                    loop.cancel()
        finally:
            self.is_leading = False
            logger.info("control stopped leading", extra={"action": "control_stopped_leading"})
