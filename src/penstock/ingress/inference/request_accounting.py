"""Accounts for the end of every request: its log line, the counters and its trace."""

from typing import Final

from penstock.clock import Clock
from penstock.contracts.counts import ContractCounts
from penstock.contracts.deciding import ContractDecision
from penstock.contracts.refusals import log_refusal
from penstock.contracts.traced_decisions import traced_log
from penstock.errors import Error, JournalFull
from penstock.intake.routes import route_name
from penstock.metering import Refusals, usd_bytes
from penstock.records.account import Key
from penstock.records.decision_log import DecisionLog
from penstock.records.request import InferenceRequest, Outcome, RequestEnd, RequestId
from penstock.telemetry.counters import Metrics, ModelCounters
from penstock.telemetry.request_line import RequestLines, trace_field, who
from penstock.telemetry.request_log import RequestLog
from penstock.telemetry.traces import Traces

_CALLERS_MAX: Final = 10_000


class RequestAccounting:
    """Joins the log and the metrics; endpoints call nothing else of telemetry."""

    def __init__(
        self,
        metrics: Metrics,
        log: RequestLog,
        refusals: Refusals,
        clock: Clock,
        decisions: DecisionLog,
        traces: Traces | None = None,
    ) -> None:
        self._metrics = metrics
        self._log = log
        self._lines = RequestLines()
        self._refusals = refusals
        self._decisions = decisions
        self._now = clock.now
        self._monotonic = clock.monotonic
        # None if no request is traced.
        self.traces = traces
        self.contracts = ContractCounts()
        # By key and model.
        self._callers: dict[tuple[str, str], _Caller] = {}

    def begin(self, request: InferenceRequest) -> None:
        self._caller(request).counters.in_flight += 1

    def finish(
        self,
        request_id: RequestId,
        target: bytes,
        request: InferenceRequest | None,
        end: RequestEnd,
        key: Key | None = None,
    ) -> None:
        about = b""
        if request is None:
            counters = self._metrics.of("", "")
        else:
            caller = self._caller(request)
            counters = caller.counters
            counters.in_flight -= 1
            self._count_labels(counters, request, end)
            if self._log.is_on:
                cost = usd_bytes(end.charge_nanousd) if end.attempts else b""
                about = caller.names + self._lines.labels(request, cost)
        _count(counters, end)
        if end.trace is not None:
            about += trace_field(end.trace)
            self._note_trace(request_id, target, request, end, key)
        if self._log.is_on:
            at = self._now()
            self._log.write(self._lines.line(at, request_id, target, about, end))

    def _note_trace(
        self,
        request_id: RequestId,
        target: bytes,
        request: InferenceRequest | None,
        end: RequestEnd,
        key: Key | None,
    ) -> None:
        assert self.traces is not None, "it began the trace"
        self.traces.note(request_id, route_name(target), request, end, _account_of(key))

    def count_refusal(self, key: Key | None, end: RequestEnd) -> None:
        """Count a request of which nothing ran: the ledger has no row for it, only a count."""
        account = _account_of(key)
        key_id = "" if key is None else key.id
        self._refusals.count(self._now(), account, key_id, end.error_code)

    def logged(self, request: RequestId, key: Key | None, error: Error, end: RequestEnd) -> Error:
        """Log an error that is a contract's refusal; return the error that the client gets."""
        if error.decided is None:
            return error
        try:
            log = traced_log(self._decisions, end.trace, self._monotonic)
            log_refusal(log, request, key, error)
        except JournalFull as full:
            return full
        return error

    def count_contract(self, decision: ContractDecision) -> None:
        self.contracts.add(decision)

    def _caller(self, request: InferenceRequest) -> "_Caller":
        """Return what is cached for a key and a model, while the key belongs to that account."""
        account, key, model = request.account, request.key, request.model.id
        known = self._callers.get((key, model))
        if known is not None and known.account == account:
            return known
        if len(self._callers) >= _CALLERS_MAX:
            self._callers.clear()
        made = _Caller(account, self._metrics.of(model, account), who(account, key, model))
        self._callers[key, model] = made
        return made

    def _count_labels(
        self, counters: ModelCounters, request: InferenceRequest, end: RequestEnd
    ) -> None:
        """Count by workflow, prompt family, session and client retry, to judge agents by."""
        usage, metrics = end.usage, self._metrics
        first = end.first_token_seconds
        if request.labels.workflow:
            workflow = metrics.workflows.of(request.account, request.labels.workflow)
            _add(workflow.outcomes, _outcome(end))
            if end.attempts > 1:
                _add(workflow.retried, _outcome(end))
            if request.prompt.is_stream and first is not None:
                workflow.first_token.add(first)
        if request.labels.client_retry:
            _add(counters.client_retries, _outcome(end))
        if first is not None and end.replica:
            metrics.replicas.of(request.model.id, end.replica).first_token.add(first)
        if usage is None or usage.is_estimated:
            return
        prompt = usage.prompt_tokens
        if usage.cached_tokens is not None and request.labels.prompt_family:
            family = metrics.families.of(request.account, request.labels.prompt_family)
            family.prompt_tokens += prompt
            family.cached_tokens += usage.cached_tokens
        if request.labels.session:
            counters.turn_tokens.add(float(prompt + usage.completion_tokens))
            growth = metrics.turns.growth(request.account, request.labels.session, prompt)
            if growth is not None:
                counters.turn_growth.add(float(growth))


def _account_of(key: Key | None) -> str:
    return "" if key is None or key.account is None else key.account.id


class _Caller:
    """A key's use of a model: its counters, and its names in the log."""

    def __init__(self, account: str, counters: ModelCounters, names: bytes) -> None:
        self.account = account
        self.counters = counters
        self.names = names


def _count(counters: ModelCounters, end: RequestEnd) -> None:
    _add(counters.outcomes, _outcome(end))
    if end.outcome is Outcome.FAILED:
        _add(counters.errors, end.error_code)
    if end.attempts > 1:
        counters.retries += end.attempts - 1
    if end.waited_seconds:
        counters.wait.add(end.waited_seconds)
    counters.charged_nanousd += end.charge_nanousd
    usage = end.usage
    if usage is not None:
        counters.prompt_tokens += usage.prompt_tokens
        counters.output_tokens += usage.completion_tokens
        counters.cached_tokens += usage.cached_tokens or 0
    first = end.first_token_seconds
    if first is None:
        return
    counters.first_token.add(first)
    if usage is not None and usage.completion_tokens > 1 and end.streamed_seconds is not None:
        counters.output_token.add(end.streamed_seconds / (usage.completion_tokens - 1))


def _add(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def _outcome(end: RequestEnd) -> str:
    return "ok" if end.outcome is Outcome.OK else end.outcome.value
