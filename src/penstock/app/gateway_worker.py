"""One gateway worker: all its rooms, the loops beside the path, and what uvicorn runs."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TypedDict

from starlette.applications import Starlette

from penstock.admission import Gate, Limits, release_holder
from penstock.app import heap
from penstock.app.job_rooms import desk_rooms
from penstock.catalogue import load_catalogue
from penstock.clock import Clock, SystemClock, TimerWheel, new_id
from penstock.config import Config, load
from penstock.errors import StoreUnavailable
from penstock.fleet.roster import RosterMirror
from penstock.ingress.batch_doors import BatchDoors, BatchParts
from penstock.ingress.endings import Endings
from penstock.ingress.event_doors import EventDoors
from penstock.ingress.flex_doors import FlexDoors
from penstock.ingress.health import HealthPages
from penstock.ingress.hot import HotDoor, Ways
from penstock.ingress.large_reading import LargeReading
from penstock.ingress.metrics_page import hand_out
from penstock.ingress.model_pages import ModelPages
from penstock.ingress.pages import Pages, build_pages
from penstock.ingress.reading import RequestReader
from penstock.ingress.routing_pages import RoutingPages
from penstock.ingress.server import abort_on_second_interrupt
from penstock.ingress.usage_pages import UsagePages
from penstock.metering import Drain, Journal, Ledger, Metering, PriceBook, Refusals
from penstock.metering.journal_folder import claim_folder
from penstock.metering.reports.usage_reports import UsageReports
from penstock.policy import AccountBook, KeyMirror
from penstock.records.limit import Measure, Period, Scope
from penstock.records.signal import PeerState
from penstock.routing import Router
from penstock.serving.cell_figures import CellFigures
from penstock.serving.explanation import Explainer
from penstock.serving.fleet_clients import FleetClients
from penstock.serving.probing import Prober
from penstock.serving.request_path import Meters, RequestPath, Stages
from penstock.serving.routing_counts import count_routing
from penstock.serving.submission import JobDesk
from penstock.signals import (
    CellKey,
    Exchange,
    Reach,
    open_table,
    worker_identity,
)
from penstock.store import Objects, Store
from penstock.telemetry import log
from penstock.telemetry.counters import Metrics
from penstock.telemetry.log_writer import LogWriter
from penstock.telemetry.metrics import Gauges, Snapshot
from penstock.telemetry.request_log import RequestLog

_FLUSH_SECONDS = 0.2
_TICK_SECONDS = 0.02
_IDLE_TICK_SECONDS = 0.2
_COLLECT_EVERY = 20_000
_ADOPT_FIRST_SECONDS = 20.0

logger = logging.getLogger(__name__)


class WorkerState(TypedDict):
    """What the client's protocol finds in uvicorn's application state."""

    door: HotDoor


class GatewayWorker:
    """All the rooms of one gateway worker, built once."""

    def __init__(
        self, config: Config, clock: Clock, log_writer: LogWriter, meters: Meters | None = None
    ) -> None:
        """`meters` takes the journal's place where a benchmark leaves metering out."""
        self.config = config
        self.log_writer = log_writer
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
        telemetry = config.telemetry
        self.metrics = Metrics(telemetry.label_pairs_max, telemetry.labels_per_account_max)
        self.request_log = RequestLog(log_writer.put, is_on=telemetry.log_requests)
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
        prices = PriceBook(self.catalogue.models)
        self.large = LargeReading(RequestReader(self.catalogue, self.keys, prices, config.ingress))
        reader = RequestReader(self.catalogue, self.keys, prices, config.ingress, large=self.large)
        self.objects = Objects(config.store)
        rooms = desk_rooms(self.store, self.objects, config)
        desk = JobDesk(rooms, config.admission, clock)
        self.later = FlexDoors(rooms, desk, reader, self.catalogue, config.ingress, clock)
        parts = BatchParts(self.store, self.objects, desk, reader, self.keys)
        self.batches = BatchDoors(parts, config.ingress, clock)
        self.figures = CellFigures(self.store, rooms.queue, clock)
        self.events = EventDoors(self.store, reader, config.events, config.webhooks, clock)
        ways = Ways(path, self.later.flex, self.later.queue)
        self.door = HotDoor(reader, ways, endings, config.ingress, self.wheel, clock)
        self.door.write_buffer_bytes = config.engine.write_buffer_bytes
        self.door.on_drain = self.events.feed.end_all
        self.pages = self._build_pages(reader)
        self.exchange: Exchange | None = None
        self.reach = Reach(config.signals, config.fleet.host or socket.gethostname())
        self.is_loaded = False

    def _build_pages(self, reader: RequestReader) -> Pages:
        config = self.config
        health = HealthPages(
            {
                "keys_loaded": lambda: self.is_loaded,
                "replica_ready": lambda: any(
                    self.roster.ready(m.id) for m in self.catalogue.models
                ),
            },
            lambda: [self.reach.problem] if self.reach.problem else [],
        )
        return Pages(
            models=ModelPages(reader, self.catalogue, self.roster.wanted_models, self.clock),
            usage=UsagePages(reader, UsageReports(self.store, config.metering), self.clock),
            health=health,
            routing=RoutingPages(
                reader,
                Explainer(self.router, config.routing, self._peers),
                AccountBook(self.store).find,
                self.clock,
            ),
            jobs=self.later.pages,
            batches=self.batches,
            events=self.events,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Open, load, and keep the loops beside the path going until the block ends."""
        await self.store.open()
        await self.objects.open()
        try:
            await self.keys.load()
            await self.roster.load()
            self.objects.check_hosts(len({replica.host for replica in self.roster.all()}))
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
                    group.create_task(self.later.waits.run()),
                    group.create_task(self.events.feed.run()),
                    group.create_task(self.figures.run()),
                    group.create_task(self.batches.intake.run()),
                    group.create_task(exchange.run()),
                    group.create_task(self._follow()),
                    group.create_task(self._tick()),
                    group.create_task(heap.keep_small()),
                ]
                yield
                for loop in loops:
                    loop.cancel()
        finally:
            self.wheel.stop()
            self.clients.close()
            self.large.close()
            self.request_log.flush()
            if self.is_loaded:
                await self.later.waits.finish()
                await self.drain.finish()
            else:
                # Nothing was begun: a start that fails again and again must not fill the disk.
                self.journal.remove()
            if self.table is not None:
                self.table.close()
            await self.objects.close()
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
            self.router.tick(self.clock.monotonic())
            is_asked = self.router.was_asked()
            await asyncio.sleep(_TICK_SECONDS if is_asked else _IDLE_TICK_SECONDS)

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
            cell=self.figures.latest,
        )
        count_routing(gauges, self.router, self.exchange)
        return self.metrics.snapshot(gauges)

    def _sums(self) -> dict[str, int]:
        return {
            "penstock_log_lines_dropped_total": self.log_writer.lines_dropped,
            "penstock_event_streams": self.events.feed.streams,
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
        hosts: set[str] = set()
        while True:
            if self.roster.version != seen:
                seen = self.roster.version
                replicas = self.roster.all()
                hosts = {replica.host for replica in replicas}
                self.clients.keep_only(replicas)
                self.router.keep_only(replicas)
                if self.table is not None:
                    self.table.keep_only([replica.id for replica in replicas])
            # Also without news: an ejected replica that was restored has slots again.
            self.gate.capacity_changed()
            now = self.clock.monotonic()
            self.gate.measure(now)
            self.reach.note(hosts, now, is_up=self.exchange is not None and self.exchange.is_up)
            self.request_log.flush()
            await asyncio.sleep(_FLUSH_SECONDS)


def _by_kind(counts: Mapping[tuple[Scope, Measure, Period], int]) -> dict[str, int]:
    return {" ".join(kind): count for kind, count in counts.items()}


def gateway(meters: Meters | None = None) -> Starlette:
    """What each gateway worker runs: uvicorn calls this in the worker's own process."""
    config = load().config
    log_writer = log.set_up_service(config.telemetry)
    worker = GatewayWorker(config, SystemClock(), log_writer, meters)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[WorkerState]:
        try:
            async with worker.running():
                _calm_collector()
                heap.keep_between_requests()
                server = await hand_out(worker.snapshot, Path(config.ingress.run_folder))
                try:
                    with abort_on_second_interrupt(worker.door.abort):
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
