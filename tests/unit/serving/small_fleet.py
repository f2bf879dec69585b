"""Engines in the test's own loop, and the rooms of one gateway worker in front of them."""

import asyncio
import tempfile
from pathlib import Path

from tests.unit.engine.engine_line import MODEL, Collector, make_request
from tests.unit.engine.tiny_engine import Answer, Call, TinyEngine

from penstock import admission, routing
from penstock.app.limit_events import publish_notices
from penstock.clock import TimerWheel, new_id
from penstock.engine.settings import EngineSettings
from penstock.metering import Journal, Metering, MeteringSettings
from penstock.metering.journal_reader import JournalReader, Row
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaStart, ReplicaState
from penstock.records.request import RequestEnd
from penstock.serving.fleet_clients import FleetClients
from penstock.serving.probing import Prober
from penstock.serving.request_path import RequestPath, Stages
from penstock.serving.settings import ServingSettings
from penstock.store import Store, StoreSettings
from penstock.testing.manual_clock import ManualClock

_SMALL = MeteringSettings(segment_bytes=2**16, journal_bytes_max=2**17, open_max=64)


def _no_store() -> Store:
    """One that is never asked: the account of these requests has no limits."""
    return Store(StoreSettings(dsn="host=127.0.0.1"))


class Fleet:
    """Engines, the roster that names them, and the rooms of one gateway worker."""

    def __init__(self) -> None:
        self.engines: list[TinyEngine] = []
        self.replicas: list[Replica] = []
        self.slots = 256
        self.clock = ManualClock()
        self._folder = tempfile.TemporaryDirectory(prefix="penstock-test-")
        self.journal = Journal(Path(self._folder.name), new_id(), _SMALL)
        self.wheel = TimerWheel(self.clock)
        self.set_up()

    def set_up(
        self,
        serving: ServingSettings | None = None,
        waiting: admission.AdmissionSettings | None = None,
    ) -> None:
        self.router = routing.Router(self, routing.RoutingSettings())
        self.clients = FleetClients(EngineSettings(), self.wheel, self.clock)
        self.gate = admission.Gate(
            self.router, waiting or admission.AdmissionSettings(), self.wheel
        )
        stages = Stages(
            limits=admission.Limits(
                _no_store(), self.clock, admission.AdmissionSettings(), new_id(), publish_notices
            ),
            gate=self.gate,
            router=self.router,
            clients=self.clients,
            meters=Metering(self.journal, self.clock),
        )
        self.path = RequestPath(stages, serving or ServingSettings(), self.clock)
        self.prober = Prober(self.router, self.clients, self.clock)

    def ready(self, model: ModelId) -> tuple[Replica, ...]:
        assert model == MODEL.id
        return tuple(self.replicas)

    def find(self, replica: ReplicaId) -> Replica | None:
        return next((each for each in self.replicas if each.id == replica), None)

    def starting(self, model: ModelId) -> ReplicaStart | None:
        del model
        return None

    def waking(self, model: ModelId) -> ReplicaStart | None:
        del model
        return None

    async def add(self, *answers: Answer) -> TinyEngine:
        engine = await TinyEngine(*answers).start()
        self.engines.append(engine)
        replica = Replica(
            id=ReplicaId(f"r{len(self.replicas)}"),
            model=MODEL.id,
            url=engine.url,
            state=ReplicaState.READY,
            served_name="served",
            slots_live=self.slots,
        )
        self.replicas.append(replica)
        return engine

    def start(self, *, is_stream: bool = False, reject_if_busy: bool = False) -> "Visit":
        return Visit(self, is_stream=is_stream, reject_if_busy=reject_if_busy)

    async def close(self) -> None:
        try:
            self.clients.close()
            assert self.router.in_flight() == 0, "something is still counted in flight"
            assert self.gate.waiting() == {}
            armed = [timer for slot in self.wheel._slots for timer in slot if timer.is_armed]
            assert armed == [], "a timer was left armed"
        finally:
            self.journal.leave()
            self._folder.cleanup()
            for engine in self.engines:
                await engine.stop()

    def rows(self) -> list[Row]:
        """What the ledger will be told."""
        reader = JournalReader(self.journal.folder)
        try:
            return reader.read(1000).attempts
        finally:
            reader.close()


class Visit:
    """One request on its way."""

    def __init__(self, fleet: Fleet, *, is_stream: bool, reject_if_busy: bool) -> None:
        self.sink = Collector()
        self.end = RequestEnd()
        request = make_request(is_stream=is_stream, reject_if_busy=reject_if_busy)
        self.task = asyncio.ensure_future(fleet.path.run(request, self.sink, self.end))

    async def done(self) -> "Visit":
        await self.task
        return self


async def die_before_a_word(call: Call) -> None:
    call.writer.transport.abort()


async def busy(call: Call) -> None:
    await call.answer(b'{"error":{"message":"engine is currently busy"}}', status=503)


async def silent(call: Call) -> None:
    await call.wait_until_dropped()
