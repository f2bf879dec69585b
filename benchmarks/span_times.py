"""What tracing a request costs, in microseconds of CPU: on the request path, and beside it.

Interpreted, unless PYTHONPATH has the compiled package (`deploy/native/build.py`). Prints one line
of JSON. The least of several rounds counts, because other work on the machine only adds.
"""

import json
import sys
import timeit
from collections.abc import Callable
from typing import Final

from penstock.clock import SystemClock, new_id, new_span_id
from penstock.records.model import ModelId
from penstock.records.replica import Replica, ReplicaId, ReplicaState
from penstock.records.request import RequestEnd
from penstock.records.trace import RequestTrace, TracedAttempt
from penstock.records.usage import Usage
from penstock.telemetry import span_names, traces
from penstock.telemetry.otlp import SpanWriter, spans_of
from penstock.telemetry.settings import TelemetrySettings
from penstock.telemetry.trace_context import read_traceparent

_ROUNDS: Final = 9
_TIMES: Final = 20_000
_BATCH: Final = 512
_PLAIN_HEADERS: Final = [(b"x-header-%d" % number, b"value") for number in range(12)]
_TRACEPARENT: Final = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_REPLICA: Final = Replica(
    id=ReplicaId(new_id()),
    model=ModelId("@cf/a/model"),
    url="http://10.0.0.9:18000",
    state=ReplicaState.READY,
    served_name="served",
)


def main() -> None:
    compiled = not traces.__file__.endswith(".py")
    print(json.dumps({"bench": "traces", "compiled": compiled, **measure()}))
    sys.exit(0)


def measure() -> dict[str, float]:
    clock, request_id = SystemClock(), new_id()
    headers = [*_PLAIN_HEADERS, (b"traceparent", _TRACEPARENT)]
    sampling = traces.Traces(TelemetrySettings(traces_share=1.0, traces_waiting_max=10**6), clock)
    passing = traces.Traces(TelemetrySettings(traces_share=0.0), clock)
    end = ended(sampling.begin(request_id, headers, clock.monotonic()))
    unsampled = ended(passing.begin(request_id, headers, clock.monotonic()))
    name = "/v1/chat/completions"
    found = {
        "read_traceparent_us": microseconds(lambda: read_traceparent(headers)),
        "find_none_us": microseconds(lambda: read_traceparent(_PLAIN_HEADERS)),
        "span_id_us": microseconds(new_span_id),
        "begin_us": microseconds(lambda: sampling.begin(request_id, _PLAIN_HEADERS, 0.0)),
        "attempt_us": microseconds(lambda: attempt(request_id)),
        "note_sampled_us": microseconds(
            lambda: sampling.note(request_id, name, None, end, "account")
        ),
        "note_unsampled_us": microseconds(
            lambda: passing.note(request_id, name, None, unsampled, "account")
        ),
    }
    batch, epoch = sampling.take(_BATCH), sampling.epoch()
    resource = {span_names.SERVICE_NAME: "penstock-gateway", span_names.HOST_NAME: "host"}
    writer = SpanWriter(resource, "0")

    def write() -> bytes:
        return writer.body([span for each in batch for span in spans_of(each, epoch)])

    seconds = min(timeit.repeat(write, number=1, repeat=_ROUNDS))
    found["write_span_us"] = round(seconds / (2 * _BATCH) * 1e6, 2)
    found["bytes_a_span"] = len(write()) // (2 * _BATCH)
    return found


def ended(trace: RequestTrace) -> RequestEnd:
    trace.attempts.append(attempt("request"))
    return RequestEnd(trace=trace, status=200, attempts=1, first_token_seconds=0.1)


def attempt(request_id: str) -> TracedAttempt:
    made = TracedAttempt(
        span_id=new_span_id(),
        request_id=request_id,
        api="chat",
        model="@cf/a/model",
        replica=_REPLICA,
        started=0.0,
        is_stream=True,
        output_tokens_max=1024,
        session="a session",
        workflow="a workflow",
        cached_expected=900,
    )
    made.ended, made.first_data_at = 1.0, 0.1
    made.usage, made.outcome = Usage(1000, 100, 900), "ok"
    return made


def microseconds(work: Callable[[], object]) -> float:
    """Return the microseconds of one call, without those of calling nothing."""
    seconds = min(timeit.repeat(work, number=_TIMES, repeat=_ROUNDS))
    empty = min(timeit.repeat(lambda: None, number=_TIMES, repeat=_ROUNDS))
    return round((seconds - empty) / _TIMES * 1e6, 2)


if __name__ == "__main__":
    main()
