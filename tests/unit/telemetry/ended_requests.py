"""Requests that end under a trace, for tests of what is sent of them."""

from typing import Any

from tests.unit.engine.engine_line import MODEL, make_request

from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.records.request import Outcome, RequestEnd
from penstock.records.trace import TracedAttempt
from penstock.records.usage import Usage
from penstock.telemetry import span_names as names
from penstock.telemetry.otlp import SpanWriter
from penstock.telemetry.settings import TelemetrySettings
from penstock.telemetry.traces import Traces
from penstock.testing.manual_clock import ManualClock

# Half of all ids are below it.
LOW = "01890000-0000-7000-8000-000000000001"
HIGH = "01890000-0000-7000-80ff-ffffffffffff"
REPLICA = Replica(
    id=ReplicaId("r1"),
    model=MODEL.id,
    url="https://engine.example/base",
    state=ReplicaState.READY,
    served_name="served",
)
ODD = 'a"b\\c\n\x00\u2028é🌊%s'
WRITER = SpanWriter(
    {
        names.SERVICE_NAME: "penstock-gateway",
        names.SERVICE_VERSION: "0.1",
        names.SERVICE_INSTANCE_ID: ODD,
        names.HOST_NAME: "h",
    },
    "0.1",
)


class Desk:
    """Lets requests begin and end under traces, on a clock of its own."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.traces = Traces(TelemetrySettings(**settings), self.clock)

    def end(
        self, request_id: str = LOW, *, headers: Any = (), account: str = "acme", **facts: Any
    ) -> RequestEnd:
        """A request that was served after half a second, unless `facts` say otherwise."""
        trace = self.traces.begin(request_id, list(headers), self.clock.monotonic())
        self.clock.advance(0.5)
        end = RequestEnd(**{"status": 200, "total_seconds": 0.5, "trace": trace, **facts})
        request = make_request(contract="review@3")
        self.traces.note(request_id, "/v1/chat/completions", request, end, account)
        return end

    def kept(self) -> int:
        return len(self.traces.take(10**6))


def attempt(started: float, **facts: Any) -> TracedAttempt:
    made = TracedAttempt(
        span_id="00000000000000a1",
        request_id=LOW,
        api=facts.pop("api", "chat"),
        model="@cf/x/y",
        started=started,
        **{"replica": REPLICA, **facts},
    )
    made.ended, made.first_data_at = started + 0.5, started + 0.25
    made.usage, made.outcome = Usage(100, 20, 64), Outcome.OK.value
    return made
