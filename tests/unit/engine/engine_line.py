"""A client to a tiny engine, on a clock that the test owns, and what such tests hand to it."""

from collections.abc import Callable

from tests.unit.engine.tiny_engine import Answer, TinyEngine, until

from penstock.clock import TimerWheel
from penstock.engine.replica import ReplicaClient
from penstock.engine.settings import EngineSettings
from penstock.engine.sink import Sink
from penstock.records.account import AccountId, KeyId
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.records.request import InferenceRequest, RequestId
from penstock.records.tally import Tally
from penstock.records.usage import Usage
from penstock.testing.manual_clock import ManualClock
from penstock.testing.sample_request import sample_request
from penstock.wire.json_body import read_fields

HEAD_BYTES_MAX = EngineSettings().head_bytes_max

MODEL = Model(
    id=ModelId("@cf/x/y"),
    family=Family.OPENAI,
    context_tokens=1000,
    recipe=Recipe(command=("x",)),
)


class Line:
    """One engine, and a client to it whose time the test owns."""

    def __init__(self, engine: TinyEngine, settings: EngineSettings, path: str = "") -> None:
        self.engine = engine
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock)
        replica = Replica(
            id=ReplicaId("r1"),
            model=MODEL.id,
            url=engine.url + path,
            state=ReplicaState.READY,
            served_name="served",
        )
        self.client = ReplicaClient(replica, settings, self.wheel, self.clock)

    def pass_time(self, seconds: float) -> None:
        """Let time pass as it does for a wheel that turns."""
        self.clock.advance(seconds)
        self.wheel.advance()

    def armed_timers(self) -> int:
        return sum(timer.is_armed for slot in self.wheel._slots for timer in slot)


class Lines:
    """Makes engines and clients for a test and takes them down after it."""

    def __init__(self) -> None:
        self._lines: list[Line] = []

    async def open(
        self, *answers: Answer, settings: EngineSettings | None = None, path: str = ""
    ) -> Line:
        engine = await TinyEngine(*answers).start()
        return self.to(engine, settings or EngineSettings(), path)

    def to(self, engine: TinyEngine, settings: EngineSettings, path: str = "") -> Line:
        line = Line(engine, settings, path)
        self._lines.append(line)
        return line

    async def close(self) -> None:
        try:
            for line in self._lines:
                assert line.armed_timers() == 0, "a timer was left armed"
                line.client.close()
                await until(lambda line=line: line.client.open_connections == 0)  # type: ignore[misc]
        finally:
            for line in self._lines:
                await line.engine.stop()


def make_request(
    *, is_stream: bool = False, body: bytes = b"", **facts: object
) -> InferenceRequest:
    """A request as ingress hands it over."""
    fields = read_fields(
        body
        or b'{"messages":[{"role":"user","content":"hi"}],"stream":%s}'
        % (b"true" if is_stream else b"false")
    )
    values: dict[str, object] = {
        "id": RequestId("0190-request"),
        "account": AccountId("acme"),
        "key": KeyId("key1"),
        "model": MODEL,
        "body": fields,
        "is_stream": is_stream,
        "cache_salt": "abcd",
        **facts,
    }
    return sample_request(**values)


class Collector(Sink):
    """A sink that keeps what it is given, and is full when the test says so."""

    is_full = False
    is_gone = False

    def __init__(self) -> None:
        self.begun = 0
        self.events: list[bytes] = []
        self.answer: bytes | None = None
        self.usage: Usage | None = None
        self.resume: Callable[[], None] | None = None

    def when_drained(self, resume: Callable[[], None]) -> None:
        self.resume = resume

    def drain(self) -> None:
        self.is_full = False
        resume, self.resume = self.resume, None
        assert resume is not None, "nobody waits"
        resume()

    def begin(self) -> None:
        self.begun += 1

    def push(self, events: bytes) -> None:
        self.events.append(events)

    def shape(self, answer: bytes) -> bytes:
        return answer

    def whole(self, shaped: bytes, usage: Usage | None) -> None:
        self.answer = shaped
        self.usage = usage


class Notes(Tally):
    """A tally that keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[bytes] = []
        self.settled: list[Usage | None] = []

    def note(self, usage: bytes) -> None:
        self.noted.append(usage)

    def settle(self, usage: Usage | None) -> None:
        self.settled.append(usage)
