"""A gateway worker in which nothing runs by the clock, so that requests alone cost instructions.

`python quiet_worker.py UPSTREAM_PORTS PORT=FILE …` serves one port for each contract file; an
empty file is no contract. With `+noted` behind the file every request is traced; with `+traced`,
traces are also written, ten times a second, and thrown away. The rooms of the path, connections,
journal and log are the real ones, in this process' own order: no Postgres, no limits, no peers, no
garbage collection, and a clock that stands still. What benchmarks compare so is deterministic, but
for the order of a few tables.
"""

import asyncio
import contextlib
import gc
import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any, Final, NamedTuple

import uvicorn
import uvloop
from uvicorn.server import ServerState

from penstock.admission import AdmissionSettings, Gate, Limits
from penstock.app.limit_events import publish_notices
from penstock.catalogue import Catalogue
from penstock.clock import TimerWheel, new_id
from penstock.contracts.compiling import compile_set
from penstock.contracts.current import CurrentContracts
from penstock.contracts.decision_log import JournaledDecisions
from penstock.engine.settings import EngineSettings
from penstock.ingress.http.client_protocol import ClientProtocol
from penstock.ingress.inference.inference_endpoint import InferenceEndpoint
from penstock.ingress.inference.request_accounting import RequestAccounting
from penstock.ingress.inference.ways import Ways
from penstock.ingress.settings import IngressSettings
from penstock.intake.policies import IntakePolicies
from penstock.intake.request_reader import RequestReader
from penstock.intake.storage_policy import StoragePolicy
from penstock.metering import Journal, Metering, MeteringSettings, PriceBook, Refusals
from penstock.policy import KeyMirror, PolicySettings
from penstock.policy.key_row import KeyRow
from penstock.records.account import Account, AccountId, KeyId, Role
from penstock.records.model import Capability, Family, Model, ModelId, Recipe
from penstock.records.replica import Replica, ReplicaId, ReplicaStart, ReplicaState
from penstock.routing import Router, RoutingSettings
from penstock.serving.fleet_clients import FleetClients
from penstock.serving.request_path import RequestPath, Stages
from penstock.serving.settings import ServingSettings
from penstock.store import Store, StoreSettings
from penstock.telemetry import span_names as names
from penstock.telemetry.counters import Metrics
from penstock.telemetry.otlp import SpanWriter
from penstock.telemetry.request_log import RequestLog
from penstock.telemetry.settings import TelemetrySettings
from penstock.telemetry.trace_export import TraceExport
from penstock.telemetry.traces import Traces
from penstock.testing.manual_clock import ManualClock

SECRET: Final = "sk-quiet"
# Behind a file's name: every request of its port is traced, and the traces are kept, or written.
NOTED: Final = "+noted"
TRACED: Final = "+traced"
# How often traces are written.
WRITE_SECONDS: Final = 0.1
TRACING: Final = TelemetrySettings(traces_url="http://127.0.0.1:4318/v1/traces", traces_share=1.0)
MODEL: Final = Model(
    id=ModelId("@benchmark/penstock/m"),
    aliases=("m",),
    family=Family.OPENAI,
    context_tokens=262_144,
    capabilities=frozenset({Capability.TOOLS}),
    recipe=Recipe(command=("x",)),
)


class Kind(NamedTuple):
    """What a worker does beside answering: a contract that is in force, and traces."""

    contract: str = ""
    # "", NOTED or TRACED.
    tracing: str = ""


class Roster:
    """The upstream's ports as ready replicas."""

    def __init__(self, ports: list[int]) -> None:
        self._replicas = tuple(
            Replica(
                id=ReplicaId(f"r{port}"),
                model=MODEL.id,
                url=f"http://127.0.0.1:{port}",
                state=ReplicaState.READY,
                served_name="m",
            )
            for port in ports
        )

    def ready(self, model: ModelId) -> tuple[Replica, ...]:
        assert model == MODEL.id, "there is one model"
        return self._replicas

    def find(self, replica: ReplicaId) -> Replica | None:
        return next((each for each in self._replicas if each.id == replica), None)

    def starting(self, model: ModelId) -> ReplicaStart | None:
        assert model == MODEL.id, "there is one model"
        return None

    def waking(self, model: ModelId) -> ReplicaStart | None:
        assert model == MODEL.id, "there is one model"
        return None


class QuietRooms:
    """What the worker's endpoints share: settings, a clock that stands still, and one catalogue."""

    def __init__(self, ports: list[int], folder: Path) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock)
        self.store = Store(StoreSettings(dsn="host=127.0.0.1"))
        self.catalogue = Catalogue([MODEL])
        self.roster = Roster(ports)
        self._folder = folder
        self._keys = KeyMirror(self.store, self.clock, PolicySettings())
        account = Account(AccountId("benchmark"), "Benchmark")
        secret = hashlib.sha256(SECRET.encode()).digest()
        key = KeyRow(KeyId("k"), account.id, Role.RUNTIME, "benchmark", secret, is_revoked=False)
        # What `load` would read from Postgres.
        table = self._keys._table  # noqa: SLF001 - nothing else sets it without a store
        table.apply_accounts([account])
        table.apply_keys([key])
        self._keys._cell_secret = b"a cell's secret"  # noqa: SLF001 - as above

    def endpoint(self, kind: Kind, traces: Traces | None) -> InferenceEndpoint:
        """Build the rooms of one worker, with its contract in force unless that is empty."""
        admission, clock = AdmissionSettings(), self.clock
        router = Router(self.roster, RoutingSettings())
        holder = new_id()
        journal = Journal(self._folder / holder, holder, MeteringSettings())
        decisions = JournaledDecisions(journal, clock)
        stages = Stages(
            limits=Limits(self.store, clock, admission, holder, publish_notices),
            gate=Gate(router, admission, self.wheel),
            router=router,
            clients=FleetClients(EngineSettings(), self.wheel, clock),
            meters=Metering(journal, clock),
            decisions=decisions,
        )
        in_force = compile_set(1, [(1, kind.contract)] if kind.contract else [], self.catalogue)
        policies = IntakePolicies(StoragePolicy(), CurrentContracts(in_force))
        settings = IngressSettings()
        reader = RequestReader(
            self.catalogue,
            self._keys,
            PriceBook(self.catalogue.models),
            settings.intake,
            policies=policies,
        )
        accounting = RequestAccounting(
            Metrics(1000, 1000),
            RequestLog(lambda _lines, _count: None),
            Refusals(self.store, 1000),
            clock,
            decisions,
            traces,
        )
        # No request of these benchmarks goes another way.
        none: Any = None
        path = RequestPath(stages, ServingSettings(), clock)
        ways = Ways(path, none, none, none, none, none)
        return InferenceEndpoint(reader, ways, accounting, settings, self.wheel, clock)


async def listen(endpoint: InferenceEndpoint, port: int) -> asyncio.Server:
    config = uvicorn.Config("none", http=ClientProtocol, interface="asgi3", log_config=None)
    config.load_app = lambda: None  # type: ignore[method-assign]
    config.load()
    state, loop = ServerState(), asyncio.get_running_loop()
    state.default_headers = [(b"date", b"Thu, 19 Nov 2026 00:00:00 GMT")]
    found = {"worker": endpoint}
    return await loop.create_server(
        lambda: ClientProtocol(config, state, found, loop), "127.0.0.1", port
    )


def written(traces: Traces) -> TraceExport:
    """Return what writes traces and throws them away."""

    async def post(body: bytes) -> str:
        return "" if body else "nothing was written"

    resource = {names.SERVICE_NAME: "penstock-gateway"}
    return TraceExport(traces, SpanWriter(resource, "0"), post, TRACING, WRITE_SECONDS)


async def serve(upstreams: list[int], kinds: dict[int, Kind], folder: Path) -> None:
    rooms = QuietRooms(upstreams, folder)
    servers = list[asyncio.Server]()
    exports = list[asyncio.Task[None]]()
    for port, kind in kinds.items():
        traces = Traces(TRACING, rooms.clock) if kind.tracing else None
        servers.append(await listen(rooms.endpoint(kind, traces), port))
        if traces is not None and kind.tracing == TRACED:
            exports.append(asyncio.ensure_future(written(traces).run()))
    gc.collect()
    gc.freeze()
    gc.disable()
    async with contextlib.AsyncExitStack() as stack:
        for server in servers:
            await stack.enter_async_context(server)
        await asyncio.get_running_loop().create_future()


def main() -> None:
    upstreams = [int(port) for port in sys.argv[1].split(",")]
    kinds = dict[int, Kind]()
    for word in sys.argv[2:]:
        port, _, file = word.partition("=")
        tracing = next((mark for mark in (NOTED, TRACED) if file.endswith(mark)), "")
        kinds[int(port)] = Kind(Path(file.removesuffix(tracing)).read_text(), tracing)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-quiet-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        runner.run(serve(upstreams, kinds, Path(folder)))


if __name__ == "__main__":
    main()
