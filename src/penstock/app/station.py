"""Runs flex work beside one keeper, and starts again after a failure.

A failure does not affect the keeper: its replicas go on serving live requests.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from penstock import admission, metering, policy, routing
from penstock.app.trace_parts import TraceParts
from penstock.catalogue import Catalogue
from penstock.clock import Clock, TimerWheel, new_id
from penstock.contracts.decision_book import DecisionBook
from penstock.contracts.decision_log import JournaledDecisions
from penstock.contracts.settings import ContractsSettings
from penstock.contracts.version_terms import VersionTerms
from penstock.engine.settings import EngineSettings
from penstock.errors import InvalidRequest, NoReplica, StoreUnavailable
from penstock.jobs.submission import JobDesk
from penstock.metering.journal_folder import claim_folder
from penstock.puller.complete import CompletionRooms
from penstock.puller.counts import PullerCounts
from penstock.puller.job_book import JobBook
from penstock.puller.loop import Engines, Puller
from penstock.puller.runner import JobRooms, Runner
from penstock.puller.settings import PullerSettings
from penstock.queue import Queue
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaStart
from penstock.records.signal import EngineClaim
from penstock.serving.fleet_clients import FleetClients
from penstock.serving.request_path import RequestPath, Stages
from penstock.serving.settings import ServingSettings
from penstock.serving.tool_call_limits import tool_call_limits
from penstock.store import Store
from penstock.store.kept_values import KeptValues
from penstock.turns import BackgroundResponses

_FOLLOW_SECONDS = 0.2

logger = logging.getLogger(__name__)


class StationSettings(msgspec.Struct, frozen=True):
    """Settings of the rooms that a job passes through."""

    puller: PullerSettings
    admission: admission.AdmissionSettings
    contracts: ContractsSettings
    engine: EngineSettings
    metering: metering.MeteringSettings
    policy: policy.PolicySettings
    routing: routing.RoutingSettings
    serving: ServingSettings


class StationRooms(msgspec.Struct, frozen=True):
    """Objects that the keeper's process has built already."""

    store: Store
    queue: Queue
    values: KeptValues
    responses: BackgroundResponses
    desk: JobDesk
    catalogue: Catalogue
    # None if no job is traced.
    tracing: TraceParts | None
    # Raises InvalidRequest if this host cannot read the objects that gateways store.
    check_objects: Callable[[], Awaitable[None]]


class Station:
    """Runs one puller after another, from the call of `take_name` until `stop`. Run it once."""

    def __init__(
        self, settings: StationSettings, rooms: StationRooms, engines: Engines, clock: Clock
    ) -> None:
        self._settings = settings
        self._rooms = rooms
        self._engines = engines
        self._clock = clock
        self._keeper = ""
        self._is_named = asyncio.Event()
        self._stopping = asyncio.Event()
        puller = settings.puller
        bounded = msgspec.structs.replace(
            settings.routing, links_max=puller.links_max, sessions_max=puller.sessions_max
        )
        # The router outlives pullers, so that it receives gateways' signals between two of them.
        self.router = routing.Router(_OwnReplicas(engines), bounded)
        self.puller: Puller | None = None
        # Totals over all pullers so far.
        self.counts = PullerCounts()

    @property
    def traces_dropped(self) -> int:
        tracing = self._rooms.tracing
        return 0 if tracing is None else tracing.traces.dropped

    def take_name(self, keeper: str) -> None:
        self._keeper = keeper
        self._is_named.set()

    def told(
        self, claims: Callable[[float], Sequence[EngineClaim]]
    ) -> Callable[[float], Sequence[EngineClaim]]:
        """Return `claims` with this keeper's own flex work added to each claim."""

        def with_own(now: float) -> list[EngineClaim]:
            return [self._with_own(claim) for claim in claims(now)]

        return with_own

    def stop(self) -> None:
        """Ask `run` to end in order."""
        self._stopping.set()
        if self.puller is not None:
            self.puller.stop()

    async def run(self) -> None:
        """Run pullers until `stop`; after a failure, pause and build a new one."""
        await self._named_or_stopped()
        while not self._stopping.is_set():
            try:
                await self._live()
            except StoreUnavailable:
                logger.warning("puller waits for postgres", extra={"action": "puller_waits"})
            except InvalidRequest as wrong:
                extra = {"action": "puller_refused", "reason": wrong.message}
                logger.error("puller does not start", extra=extra)  # noqa: TRY400 - for operators
            except Exception:
                # The top of the loop: a failure of flex work must not end the keeper.
                self.counts.failures += 1
                logger.exception("puller failed", extra={"action": "puller_failed"})
            if not self._stopping.is_set():
                await _wait(self._stopping, self._settings.puller.restart_seconds)

    async def _named_or_stopped(self) -> None:
        while not (self._is_named.is_set() or self._stopping.is_set()):
            await _wait(self._stopping, _FOLLOW_SECONDS)

    async def _live(self) -> None:
        """Build one puller and the rooms that it needs, and run it until it ends."""
        settings, rooms = self._settings, self._rooms
        await rooms.check_objects()
        keys = policy.KeyMirror(rooms.store, self._clock, settings.policy)
        await keys.load()
        folder = Path(settings.metering.journal_folder)
        await asyncio.to_thread(_claim, folder, keys.cell_mark())
        journal = metering.Journal(folder, new_id(), settings.metering)
        ledger = metering.Ledger(
            rooms.store,
            settings.metering.workflows_max,
            DecisionBook(rooms.store, self._clock),
        )
        refusals = metering.Refusals(rooms.store, settings.metering.refusals_max)
        drain = metering.Drain(journal, ledger, refusals, settings.metering, self._release)
        wheel = TimerWheel(self._clock)
        clients = FleetClients(settings.engine, wheel, self._clock)
        path = self._path(clients, wheel, journal)
        priority = settings.puller.engine_priority
        terms = VersionTerms(rooms.store)
        tracing = rooms.tracing
        traces = None if tracing is None else tracing.traces
        runner = Runner(
            JobRooms(path, rooms.desk, keys, rooms.catalogue, terms, traces), priority, self._clock
        )
        completion = CompletionRooms(
            rooms.store, rooms.queue, ledger, rooms.values, rooms.responses
        )
        book = JobBook(
            completion, rooms.desk, self._keeper, settings.puller, self.counts, self._clock
        )
        self.puller = Puller(self._engines, self.router, runner, book, settings.puller, self._clock)
        if self._stopping.is_set():
            self.puller.stop()
        wheel.start()
        try:
            async with asyncio.TaskGroup() as group:
                loops = [
                    group.create_task(keys.run()),
                    group.create_task(drain.run()),
                    group.create_task(self._follow(clients)),
                ]
                if tracing is not None:
                    loops.append(group.create_task(tracing.export.run()))
                await self.puller.run()
                for loop in loops:
                    loop.cancel()
        finally:
            self.puller = None
            wheel.stop()
            clients.close()
            await drain.finish()
            if tracing is not None:
                await tracing.export.finish()

    def _path(
        self, clients: FleetClients, wheel: TimerWheel, journal: metering.Journal
    ) -> RequestPath:
        settings = self._settings
        stages = Stages(
            # The job's use was reserved at submission, and `puller.headroom` admitted the job.
            limits=admission.NoLimits(),
            gate=admission.Gate(_AlwaysFree(), settings.admission, wheel),
            router=self.router,
            clients=clients,
            meters=metering.Metering(journal, self._clock),
            decisions=JournaledDecisions(journal, self._clock),
            tool_calls=tool_call_limits(settings.contracts),
        )
        # The queue retries jobs, not the path, because another replica needs another claim.
        serving = msgspec.structs.replace(settings.serving, retries_max=0)
        return RequestPath(stages, serving, self._clock)

    async def _follow(self, clients: FleetClients) -> None:
        """Follow the ready replicas, and undo ejections: the keeper judges health, not the path."""
        seen: Sequence[Replica] = ()
        while True:
            ready = self._engines.ready()
            if ready != seen:
                seen = ready
                clients.keep_only(ready)
                self.router.keep_only(ready)
            for replica in ready:
                self.router.ejections.restore(replica.id)
            await asyncio.sleep(_FOLLOW_SECONDS)

    async def _release(self, holder: str) -> None:
        async with self._rooms.store.transaction() as transaction:
            await admission.release_holder(transaction, holder)

    def _with_own(self, claim: EngineClaim) -> EngineClaim:
        known = self.router.knowledge.find(ReplicaId(claim.replica))
        if known is None or not known.own.in_flight:
            return claim
        own = known.own
        return msgspec.structs.replace(
            claim, own_requests=own.in_flight, own_tokens=own.prompt_tokens
        )


class _OwnReplicas:
    """This keeper's replicas as routing's roster."""

    def __init__(self, engines: Engines) -> None:
        self._engines = engines

    def ready(self, model: ModelId) -> tuple[Replica, ...]:
        return tuple(each for each in self._engines.ready() if each.model == model)

    def find(self, replica: ReplicaId) -> Replica | None:
        return next((each for each in self._engines.ready() if each.id == replica), None)

    def starting(self, model: ModelId) -> ReplicaStart | None:
        # Jobs are claimed only for ready replicas, so nobody waits here for a start.
        del model
        return None

    def waking(self, model: ModelId) -> ReplicaStart | None:
        return self.starting(model)


class _AlwaysFree:
    """A capacity that is always free: the puller checks for room before it claims a job."""

    def free(self, model: ModelId) -> bool:
        del model
        return True

    def waking(self, model: ModelId) -> NoReplica | None:
        del model
        return None


def _claim(folder: Path, mark: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    claim_folder(folder, mark)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
