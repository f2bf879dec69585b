"""Each hot request is one asyncio task, from its door to its end."""

import asyncio
import gc
import json
import weakref
from typing import Any, cast

import uvicorn
from tests.unit.ingress.accounting_desk import Desk
from tests.unit.ingress.client_on_wire import Wire, post
from tests.unit.intake.read_samples import FULL, HELLO, KEY
from uvicorn.server import ServerState

from penstock.admission import Hold
from penstock.catalogue import Catalogue
from penstock.clock import TimerWheel
from penstock.engine.sink import Sink
from penstock.ingress.http.client_protocol import ClientProtocol
from penstock.ingress.inference.inference_endpoint import InferenceEndpoint
from penstock.ingress.inference.ways import Ways
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.request_reader import RequestReader
from penstock.metering import PriceBook
from penstock.policy import KeyMirror, PolicySettings
from penstock.records.account import Key
from penstock.records.request import InferenceRequest, RequestEnd
from penstock.serving.request_path import RequestPath
from penstock.store import Store, StoreSettings
from penstock.testing.manual_clock import ManualClock

CHAT = post(json.dumps({"model": FULL.id, **HELLO}).encode())


class Path(RequestPath):
    """Keeps the task that each request runs in, and answers when it is let."""

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[Any] | None] = []
        self.may_answer = asyncio.Event()

    async def run(
        self, request: InferenceRequest, sink: Sink, end: RequestEnd, hold: Hold | None = None
    ) -> None:
        self.tasks.append(asyncio.current_task())
        async with asyncio.timeout(60):
            await self.may_answer.wait()
        sink.whole(b"{}", None)


class Reader(RequestReader):
    """Knows every key."""

    def find_key(self, headers: CallerHeaders) -> Key | None:
        return KEY


class Worker:
    """A door that requests come to on one connection."""

    def __init__(self) -> None:
        clock = ManualClock()
        keys = KeyMirror(Store(StoreSettings(dsn="host=127.0.0.1")), clock, PolicySettings())
        keys._cell_secret = b"a cell's secret"
        catalogue = Catalogue([FULL], default_model=FULL.id)
        reader = Reader(catalogue, keys, PriceBook(catalogue.models), IngressSettings().intake)
        self.desk = Desk()
        self.path = Path()
        ways = Ways(self.path, None, None, None, None, None)  # type: ignore[arg-type]
        wheel = TimerWheel(clock)
        self.endpoint = InferenceEndpoint(
            reader, ways, self.desk.endings, IngressSettings(), wheel, clock
        )
        config = uvicorn.Config("nothing", http=ClientProtocol, interface="asgi3", log_config=None)
        config.load_app = lambda: None  # type: ignore[method-assign]
        config.load()
        self.state = ServerState()
        loop, found = asyncio.get_running_loop(), {"worker": self.endpoint}
        self.protocol = ClientProtocol(config, self.state, found, loop)
        self.wire = Wire()
        self.protocol.connection_made(self.wire)

    async def send(self, data: bytes) -> None:
        self.protocol.data_received(data)
        await _some_turns()


async def _some_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_the_path_runs_in_the_requests_own_task_however_its_head_was_read() -> None:
    worker = Worker()
    worker.path.may_answer.set()
    # Parsed; the same head again, known by its bytes; two that come in one read.
    for count, data in ((1, CHAT), (2, CHAT), (4, CHAT * 2)):
        await worker.send(data)
        assert worker.wire.written.count(b"HTTP/1.1 200 OK\r\n") == count
    tasks = worker.path.tasks
    assert None not in tasks
    assert len(set(tasks)) == 4
    assert asyncio.current_task() not in tasks
    assert worker.state.tasks == worker.endpoint.tasks == set()
    worker.protocol.connection_lost(None)


async def test_abort_ends_open_requests_with_an_answer_and_a_line() -> None:
    worker = Worker()
    await worker.send(CHAT)
    assert worker.state.tasks == worker.endpoint.tasks == set(worker.path.tasks)
    worker.endpoint.abort()
    await _some_turns()
    assert b'"aborted"' in worker.wire.written
    assert worker.desk.line()["error"] == "aborted"
    assert worker.endpoint.tasks == set()
    worker.protocol.connection_lost(None)


async def test_client_that_leaves_cancels_its_request_and_leaves_nothing_behind() -> None:
    worker = Worker()
    await worker.send(CHAT)
    seen = weakref.ref(cast("Any", worker.path.tasks.pop()))
    gc.collect()
    gc.disable()
    try:
        worker.protocol.connection_lost(None)
        await _some_turns()
        assert seen() is None, "it waits for a collection of garbage"
    finally:
        gc.enable()
    assert worker.desk.line()["outcome"] == "client_left"
    assert worker.state.tasks == worker.endpoint.tasks == set()
