"""Decides which requests are traced, at their ends, and keeps these until their spans are sent.

A request's facts are all known at its end, so nothing is sampled before the outcome is known. What
is kept are ids, names and counts: no prompt, no answer, no key.
"""

from typing import Final

from penstock.clock import Clock, new_span_id
from penstock.records.request import InferenceRequest, Outcome, RequestEnd
from penstock.records.trace import RequestTrace
from penstock.telemetry.settings import TelemetrySettings
from penstock.telemetry.trace_context import read_traceparent

_FAILED: Final = Outcome.FAILED
# The last 56 bits of a trace's id are random, and samplers elsewhere decide by them too.
_RANDOM_DIGITS: Final = 14
_RANDOM_END: Final = 2**56
# A trace's id has as many again before them.
_SPAN_DIGITS: Final = 16


class EndedTrace:
    """A request that ended and is traced. `route` is "" for a job, which has no HTTP request."""

    def __init__(
        self,
        *,
        trace: RequestTrace,
        request_id: str,
        route: str,
        end: RequestEnd,
        account: str = "",
        contract: str = "",
    ) -> None:
        self.trace: Final = trace
        self.request_id: Final = request_id
        self.route: Final = route
        self.end: Final = end
        self.account: Final = account
        self.contract: Final = contract


class Traces:
    """One per process. `begin` and `note` run on the request path; `take` runs beside it."""

    def __init__(self, settings: TelemetrySettings, clock: Clock) -> None:
        self._sampled_below = round(settings.traces_share * _RANDOM_END)
        self._slow_seconds = settings.traces_slow_ms / 1000
        self._waiting_max = settings.traces_waiting_max
        self._now = clock.now
        self._monotonic = clock.monotonic
        self._waiting: list[EndedTrace] = []
        # Traces that were to be sent and were not.
        self.dropped = 0

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def begin(
        self, request_id: str, headers: list[tuple[bytes, bytes]], started: float
    ) -> RequestTrace:
        """Return the trace of a request that came at `started`: its caller's, or a new one."""
        digits = request_id.replace("-", "")
        # As unique as the request's id, whose last 62 bits are random.
        own_span = digits[_SPAN_DIGITS:]
        parent = read_traceparent(headers)
        if parent is None:
            return self._of(digits, own_span, "", started)
        trace_id, parent_span = parent
        return self._of(trace_id, own_span, parent_span, started)

    def begin_job(self, job_id: str, started: float) -> RequestTrace:
        """Return the trace of one run of a job; all its runs have the same trace."""
        return self._of(job_id.replace("-", ""), new_span_id(), "", started)

    def note(
        self,
        request_id: str,
        route: str,
        request: InferenceRequest | None,
        end: RequestEnd,
        account: str,
    ) -> None:
        """Keep the trace of a request that ended, if it is to be sent.

        `account` is that of its key; "" if no valid key came with it. Errors of such requests are
        sent by share, so that nobody without a key can fill the list.
        """
        trace = end.trace
        assert trace is not None, "only traced requests are noted"
        if not trace.is_sampled and not (account and self._is_notable(trace, end)):
            return
        if len(self._waiting) >= self._waiting_max:
            self.dropped += 1
            return
        self._waiting.append(
            EndedTrace(
                trace=trace,
                request_id=request_id,
                route=route,
                end=end,
                account=account,
                contract="" if request is None else request.labels.contract,
            )
        )

    def take(self, count: int) -> list[EndedTrace]:
        """Return the oldest traces, and forget them."""
        taken = self._waiting[:count]
        del self._waiting[:count]
        return taken

    def epoch(self) -> float:
        """Return the time since 1970 at which the monotonic clock was 0."""
        return self._now() - self._monotonic()

    def _is_notable(self, trace: RequestTrace, end: RequestEnd) -> bool:
        """Return whether a request is traced whatever the share is."""
        # What a contract withheld has an error code, and the outcome of an answer.
        if end.outcome is _FAILED or end.error_code:
            return True
        for attempt in trace.attempts:
            if attempt.error_code or attempt.session_moved:
                return True
        first = end.first_token_seconds
        waited = end.total_seconds if first is None else end.waited_seconds + first
        return waited >= self._slow_seconds

    def _of(self, trace_id: str, span_id: str, parent_id: str, started: float) -> RequestTrace:
        return RequestTrace(
            trace_id,
            span_id,
            parent_id,
            started=started,
            is_sampled=int(trace_id[-_RANDOM_DIGITS:], 16) < self._sampled_below,
        )
