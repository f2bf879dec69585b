"""Accounting of requests that end, with the log and metrics that it writes."""

import io
import json

from tests.unit.engine.engine_line import MODEL, make_request

from penstock.ingress.inference.request_accounting import RequestAccounting
from penstock.metering import Refusals
from penstock.records.decision_log import DecisionLog
from penstock.records.request import RequestEnd
from penstock.store import Store, StoreSettings
from penstock.telemetry.counters import Metrics, ModelCounters
from penstock.telemetry.request_log import RequestLog
from penstock.testing.manual_clock import ManualClock

TARGET = b"/v1/chat/completions?secret=in-the-query"


class Desk:
    """Lets one request end, and reads what was written of it."""

    def __init__(self) -> None:
        self.out = io.BytesIO()
        self.metrics = Metrics(10, 10)
        self.log = RequestLog(lambda data, _: self.out.write(data))
        store = Store(StoreSettings(dsn="host=127.0.0.1"))
        self.refusals = Refusals(store, 10)
        clock = ManualClock(now=1_800_000_000.0)
        self.endings = RequestAccounting(
            self.metrics, self.log, self.refusals, clock, DecisionLog()
        )

    def serve(self, end: RequestEnd) -> tuple[ModelCounters, dict[str, object]]:
        request = make_request(is_stream=True, session="s1", caller_request_id="theirs")
        self.endings.begin(request)
        assert self.row().in_flight == 1
        self.endings.finish(request.id, TARGET, request, end)
        return self.row(), self.line()

    def row(self) -> ModelCounters:
        return self.metrics.of(MODEL.id, "acme")

    def line(self) -> dict[str, object]:
        self.log.flush()
        made: dict[str, object] = json.loads(self.out.getvalue().splitlines()[-1])
        return made
