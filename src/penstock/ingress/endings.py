"""The end of every request: one log line, and its numbers added up."""

from datetime import UTC, datetime

from penstock.clock import Clock
from penstock.metering import Refusals, usd
from penstock.records.account import Key
from penstock.records.request import InferenceRequest, Outcome, RequestEnd, RequestId
from penstock.telemetry.metrics import (
    FIRST_TOKEN_BUCKETS,
    GROWTH_BUCKETS,
    OUTPUT_TOKEN_BUCKETS,
    TURN_BUCKETS,
    Metrics,
    Row,
)
from penstock.telemetry.request_line import RequestLine
from penstock.telemetry.request_log import RequestLog


class Endings:
    """Joins the log and the metrics; the doors call it and nothing else of telemetry."""

    def __init__(self, metrics: Metrics, log: RequestLog, refusals: Refusals, clock: Clock) -> None:
        self._metrics = metrics
        self._log = log
        self._refusals = refusals
        self._clock = clock

    def begin(self, request: InferenceRequest) -> None:
        self._metrics.row(request.model.id, request.account).in_flight += 1

    def finish(
        self,
        request_id: RequestId,
        target: bytes,
        request: InferenceRequest | None,
        end: RequestEnd,
    ) -> None:
        if request is None:
            row = self._metrics.row("", "")
        else:
            row = self._metrics.row(request.model.id, request.account)
            row.in_flight -= 1
            self._count_labels(row, request, end)
        _count(row, end)
        self._log.write(self._line(request_id, target, request, end))

    def count_refusal(self, key: Key | None, end: RequestEnd) -> None:
        """Nothing ran: the ledger has no row of it, only a count."""
        account = "" if key is None or key.account is None else key.account.id
        key_id = "" if key is None else key.id
        self._refusals.count(self._clock.now(), account, key_id, end.error_code)

    def _count_labels(self, row: Row, request: InferenceRequest, end: RequestEnd) -> None:
        """The numbers by which one judges an agent: workflow, prompt family, session, retries."""
        usage, metrics = end.usage, self._metrics
        if request.client_retry:
            outcome = end.outcome.value
            row.client_retries[outcome] = row.client_retries.get(outcome, 0) + 1
        if request.is_stream and end.first_token_seconds is not None and request.workflow:
            label = metrics.workflows.row(request.account, request.workflow)
            label.first_token.add(end.first_token_seconds, FIRST_TOKEN_BUCKETS)
        if usage is None:
            return
        if usage.cached_tokens is not None and request.prompt_family:
            label = metrics.families.row(request.account, request.prompt_family)
            label.prompt_tokens += usage.prompt_tokens
            label.cached_tokens += usage.cached_tokens
        if request.session:
            row.turn_tokens.add(usage.prompt_tokens + usage.completion_tokens, TURN_BUCKETS)
            growth = metrics.turns.growth(request.account, request.session, usage.prompt_tokens)
            if growth is not None:
                row.turn_growth.add(growth, GROWTH_BUCKETS)

    def _line(
        self,
        request_id: RequestId,
        target: bytes,
        request: InferenceRequest | None,
        end: RequestEnd,
    ) -> RequestLine:
        usage = end.usage
        line = RequestLine(
            time=datetime.fromtimestamp(self._clock.now(), UTC),
            event="request",
            request=request_id,
            status=end.status,
            outcome=end.outcome.value,
            replica=end.replica,
            attempts=end.attempts,
            path=target.partition(b"?")[0][:256].decode("latin-1"),
            error=end.error_code,
            queue_ms=_millis(end.waited_seconds),
            first_token_ms=None
            if end.first_token_seconds is None
            else _millis(end.first_token_seconds),
            total_ms=_millis(end.total_seconds),
        )
        if request is not None:
            line.account, line.key, line.model = request.account, request.key, request.model.id
            line.session, line.stream = request.session, request.is_stream
            line.caller_request = request.caller_request_id
            line.workflow = request.workflow
            if end.attempts:
                line.cost_usd = usd(end.charge_nanousd)
        if usage is not None:
            line.prompt_tokens, line.output_tokens = usage.prompt_tokens, usage.completion_tokens
            line.cached_tokens = usage.cached_tokens
        return line


def _count(row: Row, end: RequestEnd) -> None:
    outcome = end.outcome.value
    row.outcomes[outcome] = row.outcomes.get(outcome, 0) + 1
    if end.outcome is Outcome.FAILED:
        row.errors[end.error_code] = row.errors.get(end.error_code, 0) + 1
    if end.attempts > 1:
        row.retries += end.attempts - 1
    row.charged_nanousd += end.charge_nanousd
    usage = end.usage
    if usage is not None:
        row.prompt_tokens += usage.prompt_tokens
        row.output_tokens += usage.completion_tokens
        row.cached_tokens += usage.cached_tokens or 0
    first = end.first_token_seconds
    if first is None:
        return
    row.first_token.add(first, FIRST_TOKEN_BUCKETS)
    if usage is not None and usage.completion_tokens > 1 and end.streamed_seconds is not None:
        per_token = end.streamed_seconds / (usage.completion_tokens - 1)
        row.output_token.add(per_token, OUTPUT_TOKEN_BUCKETS)


def _millis(seconds: float) -> float:
    # By cutting: rounding would cost as much as all the rest of the line.
    return int(seconds * 1e6) / 1e3
