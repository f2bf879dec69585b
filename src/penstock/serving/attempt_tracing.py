"""Notes the facts of an attempt in the trace of its request."""

from penstock.clock import new_span_id
from penstock.engine.attempt import Attempt
from penstock.records.request import InferenceRequest, Outcome, RequestEnd
from penstock.records.trace import TracedAttempt
from penstock.routing import Route


def begin_attempt(
    request: InferenceRequest, attempt: Attempt, route: Route, end: RequestEnd, started: float
) -> TracedAttempt:
    """Add an attempt to the trace of its request, and let the engine know its span."""
    trace, labels = end.trace, request.labels
    assert trace is not None, "the request is traced"
    traced = TracedAttempt(
        span_id=new_span_id(),
        request_id=request.id,
        api=request.api,
        model=request.model.id,
        replica=route.replica,
        started=started,
        is_stream=request.prompt.is_stream,
        choices=request.prompt.choices,
        output_tokens_max=request.terms.output_tokens_max,
        session=labels.session,
        workflow=labels.workflow,
        cached_expected=end.cached_expected,
        session_moved=end.session_moved,
        cache_break=end.cache_break,
    )
    trace.attempts.append(traced)
    attempt.traceparent = trace.traceparent(traced.span_id)
    return traced


def end_attempt(
    traced: TracedAttempt, attempt: Attempt, outcome: Outcome, error: str, now: float
) -> None:
    """Fill in how the attempt ended."""
    traced.ended = now
    traced.first_data_at = attempt.first_data_at
    traced.usage = attempt.usage
    traced.finish_reasons = attempt.finish_reasons(traced.choices)
    traced.outcome, traced.error_code = outcome, error
