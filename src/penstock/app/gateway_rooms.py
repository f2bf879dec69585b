"""Builds all the rooms of one gateway worker, once."""

from pathlib import Path

from msgspec.structs import replace

from penstock.admission import Gate, Limits, release_holder
from penstock.app.batch_parts import BatchNeeds, BatchParts
from penstock.app.container_rooms import container_book
from penstock.app.flex_parts import FlexParts
from penstock.app.job_rooms import desk_rooms, session_books
from penstock.app.limit_events import publish_notices
from penstock.app.this_process import host_name
from penstock.app.trace_parts import TraceParts
from penstock.app.turn_rooms import TurnRooms, serves_tools
from penstock.catalogue import load_catalogue
from penstock.clock import Clock, TimerWheel, new_id
from penstock.config import Config
from penstock.contracts.cut_outputs import CutOutputs
from penstock.contracts.decision_book import DecisionBook
from penstock.contracts.decision_log import JournaledDecisions
from penstock.contracts.set_mirror import ContractMirror
from penstock.events import EndpointBook, Feed
from penstock.fleet.hosts import read_silences
from penstock.fleet.roster import RosterMirror
from penstock.fleet.waiting_reports import WaitingReports
from penstock.ingress.inference.inference_endpoint import InferenceEndpoint
from penstock.ingress.inference.request_accounting import RequestAccounting
from penstock.ingress.inference.stored_way import StoredWay
from penstock.ingress.inference.ways import Ways
from penstock.ingress.jobs.background_endpoint import BackgroundEndpoint, BackgroundRooms
from penstock.ingress.pages.container_file_pages import ContainerFilePages
from penstock.ingress.pages.container_pages import ContainerPages
from penstock.ingress.pages.conversation_pages import ConversationPages
from penstock.ingress.pages.decision_pages import DecisionPages
from penstock.ingress.pages.event_pages import EventPages
from penstock.ingress.pages.front_page import FrontPage
from penstock.ingress.pages.health import HealthPages
from penstock.ingress.pages.model_pages import ModelPages
from penstock.ingress.pages.pages import Pages
from penstock.ingress.pages.response_pages import ResponsePages
from penstock.ingress.pages.routing_pages import RoutingPages
from penstock.ingress.pages.subscription_pages import SubscriptionPages
from penstock.ingress.pages.token_pages import TokenPages
from penstock.ingress.pages.usage_pages import UsagePages
from penstock.ingress.pages.webhook_pages import WebhookPages
from penstock.intake.large_reading import ReadingThread
from penstock.intake.policies import IntakePolicies
from penstock.intake.request_reader import RequestReader
from penstock.intake.storage_policy import StoragePolicy
from penstock.jobs.cell_figures import CellFigures
from penstock.jobs.submission import JobDesk
from penstock.metering import Drain, Journal, Ledger, Metering, PriceBook, Refusals
from penstock.metering.reports.usage_reports import UsageReports
from penstock.outbound import Sender
from penstock.policy import AccountBook, KeyMirror
from penstock.queue.files import Files
from penstock.records.signal import PeerState
from penstock.routing import Router
from penstock.serving.budget_fallback import BudgetFallback
from penstock.serving.explanation import Explainer
from penstock.serving.fleet_clients import FleetClients
from penstock.serving.probing import Prober
from penstock.serving.request_path import Meters, RequestPath, Stages
from penstock.serving.token_counting import TokenCounter
from penstock.serving.tool_call_limits import tool_call_limits
from penstock.signals import CellKey, GossipLoops, Reach, open_table, worker_identity
from penstock.store import Objects, Sealing, Store
from penstock.telemetry.counters import Metrics
from penstock.telemetry.log_writer import LogWriter
from penstock.telemetry.request_log import RequestLog
from penstock.turns import BackgroundResponses, StoredTurns


class GatewayRooms:
    """All rooms of one worker. `gateway_loops` runs them, `gateway_figures` reads their metrics."""

    def __init__(
        self, config: Config, clock: Clock, log_writer: LogWriter, meters: Meters | None = None
    ) -> None:
        """Build all rooms. A benchmark without metering passes `meters` to replace the journal."""
        self.config = config
        self.clock = clock
        self.log_writer = log_writer
        self.catalogue = load_catalogue(config.catalogue)
        self.store = Store(config.store)
        self.sealing = Sealing(self.store, config.store, clock)
        self.objects = Objects(config.store, self.sealing)
        # Nothing is stored that cannot be encrypted.
        self.storage = StoragePolicy(is_on=self.sealing.is_on)
        self.containers = container_book(self.store, self.objects, config, clock)
        self.keys = KeyMirror(self.store, clock, config.policy)
        self.wheel = TimerWheel(clock)
        self._build_routing()
        self._build_metering()
        self.contracts = ContractMirror(
            self.store, self.catalogue, config.contracts, self.limits.caught_up
        )
        self._build_serving(meters or Metering(self.journal, clock))
        self.is_loaded = False

    def _build_routing(self) -> None:
        """Build what knows the replicas and picks one for each request."""
        config, clock = self.config, self.clock
        self.roster = RosterMirror(self.store, clock, config.fleet, self.sealing)
        self.table = open_table(config.signals, clock.monotonic())
        self.identity = worker_identity(self.table)
        self.router = Router(self.roster, config.routing, self.table, self.identity.host)
        self.clients = FleetClients(config.engine, self.wheel, clock)
        self.gate = Gate(self.router, config.admission, self.wheel)
        self.prober = Prober(self.router, self.clients, clock)
        self.reach = Reach(config.signals, host_name(config))
        # None until the cell's key is known.
        self.exchange: GossipLoops | None = None

    def _build_metering(self) -> None:
        """Build limits, the journal and its drain, metrics and the request log."""
        config, telemetry = self.config, self.config.telemetry
        holder = self.holder = new_id()
        self.waiting_reports = WaitingReports(
            self.store, self.clock, holder, self.gate, self.roster
        )
        self.limits = Limits(self.store, self.clock, config.admission, holder, publish_notices)
        self.journal = Journal(Path(config.metering.journal_folder), holder, config.metering)
        refusals = Refusals(self.store, config.metering.refusals_max)
        self.decision_book = DecisionBook(self.store, self.clock)
        self.decisions = JournaledDecisions(self.journal, self.clock)
        ledger = Ledger(self.store, config.metering.workflows_max, self.decision_book)
        self.drain = Drain(self.journal, ledger, refusals, config.metering, self._release)
        self.metrics = Metrics(telemetry.label_pairs_max, telemetry.labels_per_account_max)
        self.request_log = RequestLog(self.log_writer.put, is_on=telemetry.log_requests)
        # None if no request is traced.
        self.tracing = TraceParts.build(config, self.clock, "gateway", holder)
        self._accounting = RequestAccounting(
            self.metrics,
            self.request_log,
            refusals,
            self.clock,
            self.decisions,
            None if self.tracing is None else self.tracing.traces,
        )
        self.contract_counts = self._accounting.contracts

    def _build_serving(self, meters: Meters) -> None:
        """Build the inference endpoint with its three ways, and the pages."""
        config, clock = self.config, self.clock
        stages = Stages(
            limits=self.limits,
            gate=self.gate,
            router=self.router,
            clients=self.clients,
            meters=meters,
            decisions=self.decisions,
            tool_calls=tool_call_limits(config.contracts, config.ingress.keepalive_seconds),
        )
        path = RequestPath(stages, config.serving, clock)
        prices = PriceBook(self.catalogue.models)
        self.reading = ReadingThread()
        intake = replace(config.ingress.intake, server_tools=serves_tools(config))
        outputs = CutOutputs(config.contracts)
        policies = IntakePolicies(self.storage, self.contracts.current, outputs)
        reader = RequestReader(
            self.catalogue, self.keys, prices, intake, thread=self.reading, policies=policies
        )
        rooms = desk_rooms(self.store, self.objects, config)
        self.sessions = session_books(self.store, rooms.values, config, clock)
        responses = BackgroundResponses(self.sessions, clock)
        desk = JobDesk(rooms, config.admission, clock, responses, self.decisions)
        self.figures = CellFigures(self.store, rooms.queue, read_silences, clock)
        self.flex = FlexParts(rooms, desk, reader, self.catalogue, config.ingress, clock)
        needs = BatchNeeds(
            store=self.store,
            objects=self.objects,
            desk=desk,
            reader=reader,
            keys=self.keys,
            contracts=self.contract_counts,
            decisions=self.decisions,
        )
        self.batches = BatchParts(needs, config.ingress, clock)
        self.feed = Feed(self.store, config.events)
        media_hosts = frozenset(intake.media_hosts)
        self._container_files = self._build_container_files(reader)
        tools = TurnRooms.build(config, clock, self.containers, self._container_files)
        self.turns = StoredTurns(
            self.store, self.sessions, reader, self.storage, media_hosts, tools.offers
        )
        self.background = BackgroundEndpoint(
            BackgroundRooms(
                desk=desk,
                waits=self.flex.waits,
                turns=self.turns,
                responses=responses,
                book=self.sessions.responses,
            ),
            config.ingress,
            clock,
        )
        self.foreground = tools.foreground(reader, path, config)
        fallback = BudgetFallback(reader, path, clock, config.contracts)
        stored = StoredWay(reader, self.turns, path, fallback, self.foreground)
        ways = Ways(path, fallback, stored, self.flex.flex, self.flex.queue, self.background)
        self.endpoint = InferenceEndpoint(
            reader, ways, self._accounting, config.ingress, self.wheel, clock
        )
        self.endpoint.write_buffer_bytes = config.engine.write_buffer_bytes
        self.endpoint.on_drain = self._cut_streams
        self.pages = self._build_pages(reader)

    def _build_pages(self, reader: RequestReader) -> Pages:
        config, webhooks = self.config, self.config.webhooks
        book = EndpointBook(self.store, webhooks)
        roster = self.roster
        return Pages(
            front=FrontPage(
                self.catalogue, roster.wanted_models, lambda model: bool(roster.ready(model))
            ),
            models=ModelPages(reader, self.catalogue, self.roster.wanted_models, self.clock),
            decisions=DecisionPages(reader, self.decision_book, self.clock),
            usage=UsagePages(reader, UsageReports(self.store, config.metering), self.clock),
            health=HealthPages(
                {"keys_loaded": lambda: self.is_loaded, "replica_ready": self._has_replica},
                lambda: [each for each in (self.reach.problem, self.contracts.problem) if each],
            ),
            routing=RoutingPages(
                reader,
                Explainer(self.router, config.routing, self._peers),
                AccountBook(self.store).find,
                self.clock,
            ),
            tokens=TokenPages(reader, TokenCounter(self.clients, roster.ready), self.turns),
            responses=ResponsePages(reader, self.sessions.responses, self.background),
            conversations=ConversationPages(
                reader,
                self.sessions.conversations,
                self.storage,
                frozenset(config.ingress.intake.media_hosts),
            ),
            containers=ContainerPages(reader, self.containers, self.storage, self._container_files),
            jobs=self.flex.pages,
            files=self.batches.files,
            batches=self.batches.batches,
            events=EventPages(reader, self.feed),
            webhooks=WebhookPages(reader, book, Sender(webhooks), webhooks, self.clock),
            subscriptions=SubscriptionPages(reader, book),
        )

    def _build_container_files(self, reader: RequestReader) -> ContainerFilePages:
        return ContainerFilePages(
            reader,
            self.containers,
            Files(self.store, self.objects, self.clock),
            self.config.tools.artifact_bytes_max,
        )

    def open_exchange(self) -> GossipLoops:
        """Return the exchange of loads with other workers; the keys must be loaded."""
        cell = CellKey(self.keys.cell_mark(), self.keys.signal_key())
        self.exchange = GossipLoops(
            self.identity, cell, self.config.signals, self.clock, self.router, self.table
        )
        return self.exchange

    def _cut_streams(self) -> None:
        """End the streams that have no end of their own, when this worker stops."""
        self.feed.end_all()
        self.background.end_all()

    def _has_replica(self) -> bool:
        """Return whether some model serves, or would once it is asked."""
        roster = self.roster
        return any(
            roster.ready(model.id) or roster.waking(model.id) for model in self.catalogue.models
        )

    def _peers(self) -> PeerState:
        return PeerState.ALONE if self.exchange is None else self.exchange.state

    async def _release(self, holder: str) -> None:
        async with self.store.transaction() as transaction:
            await release_holder(transaction, holder)
