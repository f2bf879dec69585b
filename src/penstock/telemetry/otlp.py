"""Writes traces as the body of an OTLP/HTTP JSON post. Pure.

Spans are joined from prepared pieces, as the request's log line is: an encoder would need a record
for each attribute first. msgspec writes the values.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import msgspec

from penstock.records.decision import LoggedDecision
from penstock.records.request import Outcome
from penstock.records.trace import RequestTrace, TracedAttempt
from penstock.telemetry import span_names as names
from penstock.telemetry.traces import EndedTrace

_SERVER: Final = 2
_CLIENT: Final = 3
_CONSUMER: Final = 5
_NO_STATUS: Final = b""
_ERROR_STATUS: Final = b',"status":{"code":2}'
# The statuses of an answer that never began, and of a stream that broke off.
_BROKEN_OFF: Final = (0, 200)
# What is sent of one decision's subjects.
_SUBJECTS_MAX: Final = 32
# Replicas times kinds of requests whose attributes are kept.
_KEPT_MAX: Final = 1000
_PORTS: Final = {"https": 443, "http": 80}
_encode: Final = msgspec.json.Encoder().encode


def _attribute(name: str, value: str) -> bytes:
    """Return an attribute with a gap for its value."""
    return b'{"key":%s,"value":%s}' % (_encode(name), value.encode())


def _text(name: str) -> bytes:
    return _attribute(name, '{"stringValue":%s}')


def _texts(name: str) -> bytes:
    return _attribute(name, '{"arrayValue":{"values":[%s]}}')


def _number(name: str) -> bytes:
    # As text, because JSON's numbers have fewer than 64 bits.
    return _attribute(name, '{"intValue":"%d"}')


def _double(name: str) -> bytes:
    return _attribute(name, '{"doubleValue":%s}')


def _truth(name: str) -> bytes:
    return _attribute(name, '{"boolValue":%s}')


_METHOD: Final = _text(names.HTTP_REQUEST_METHOD) % b'"POST"'
_ROUTE: Final = _text(names.HTTP_ROUTE)
_STATUS_CODE: Final = _number(names.HTTP_RESPONSE_STATUS_CODE)
_ERROR_TYPE: Final = _text(names.ERROR_TYPE)
_REQUEST_ID: Final = _text(names.REQUEST_ID)
_ACCOUNT: Final = _text(names.ACCOUNT)
_CONTRACT: Final = _text(names.CONTRACT)
_COST_USD: Final = _double(names.COST_USD)
_WAITED_MS: Final = _double(names.WAITED_MS)
_OUTCOME: Final = _text(names.OUTCOME)
_JOB_ID: Final = _text(names.JOB_ID)
_OPERATION: Final = _text(names.OPERATION_NAME)
_PROVIDER: Final = _text(names.PROVIDER_NAME)
_MODEL: Final = _text(names.REQUEST_MODEL)
_STREAM: Final = _truth(names.REQUEST_STREAM)
_MAX_TOKENS: Final = _number(names.REQUEST_MAX_TOKENS)
_CHOICES: Final = _number(names.REQUEST_CHOICE_COUNT)
_RESPONSE_MODEL: Final = _text(names.RESPONSE_MODEL)
_FIRST_CHUNK: Final = _double(names.TIME_TO_FIRST_CHUNK)
_FINISH_REASONS: Final = _texts(names.FINISH_REASONS)
_CONVERSATION: Final = _text(names.CONVERSATION_ID)
_WORKFLOW: Final = _text(names.WORKFLOW_NAME)
_INPUT_TOKENS: Final = _number(names.INPUT_TOKENS)
_OUTPUT_TOKENS: Final = _number(names.OUTPUT_TOKENS)
_CACHED_TOKENS: Final = _number(names.CACHE_READ_TOKENS)
_ESTIMATED: Final = _truth(names.USAGE_ESTIMATED) % b"true"
_ADDRESS: Final = _text(names.SERVER_ADDRESS)
_PORT: Final = _number(names.SERVER_PORT)
_REPLICA: Final = _text(names.REPLICA)
_CACHED_EXPECTED: Final = _number(names.CACHED_EXPECTED)
_SESSION_MOVED: Final = _text(names.SESSION_MOVED)
_CACHE_BREAK: Final = _text(names.CACHE_BREAK)
_DECISION_KIND: Final = _text(names.DECISION_KIND)
_DECISION_VERDICT: Final = _text(names.DECISION_VERDICT)
_DECISION_SUBJECTS: Final = _texts(names.DECISION_SUBJECTS)
_DECISION_OBSERVED: Final = _truth(names.DECISION_OBSERVED)


class SpanWriter:
    """Writes the bodies of one process's posts, all with the same resource attributes."""

    def __init__(self, resource: Mapping[str, str], version: str) -> None:
        about = b",".join([_text(name) % _encode(value) for name, value in resource.items()])
        self._opening = (
            b'{"resourceSpans":[{"resource":{"attributes":[%s]},"scopeSpans":'
            b'[{"scope":{"name":%s,"version":%s},"schemaUrl":%s,"spans":['
        ) % (about, _encode(names.SCOPE), _encode(version), _encode(names.SCHEMA_URL))

    def body(self, spans: Iterable[bytes]) -> bytes:
        """Return the body of a post with these spans."""
        return b"%s%s]}]}]}" % (self._opening, b",".join(spans))


def spans_of(ended: EndedTrace, epoch: float) -> list[bytes]:
    """Return the spans of one trace: the request's, and one for each attempt.

    `epoch` is the time since 1970 at which the monotonic clock was 0.
    """
    nanos = round(epoch * 10**9)
    attempts = [_attempt_span(ended.trace, attempt, nanos) for attempt in ended.trace.attempts]
    return [_request_span(ended, nanos), *attempts]


def _request_span(ended: EndedTrace, epoch: int) -> bytes:
    trace, end, route = ended.trace, ended.end, ended.route
    attributes = [_outcome(end.outcome.value), _WAITED_MS % _ms(end.waited_seconds)]
    if route:
        attributes += [_METHOD, _ROUTE % _encode(route), _REQUEST_ID % _encode(ended.request_id)]
        if end.status:
            attributes.append(_STATUS_CODE % end.status)
        if end.attempts:
            # A job is charged where its completion is written.
            attributes.append(_COST_USD % _encode(end.charge_nanousd / 10**9))
    else:
        attributes.append(_JOB_ID % _encode(ended.request_id))
    if end.error_code:
        attributes.append(_ERROR_TYPE % _encode(end.error_code))
    if ended.account:
        attributes.append(_ACCOUNT % _encode(ended.account))
    if ended.contract:
        attributes.append(_CONTRACT % _encode(ended.contract))
    name, kind = (f"POST {route}", _SERVER) if route else (names.JOB_SPAN, _CONSUMER)
    is_error = end.outcome is Outcome.FAILED and (end.status >= 500 or end.status in _BROKEN_OFF)
    return _span(
        (trace.trace_id, trace.span_id, trace.parent_id),
        (name, kind),
        (_nanos(epoch, trace.started), _nanos(epoch, trace.started + end.total_seconds)),
        attributes,
        _events(trace, epoch) + (_ERROR_STATUS if is_error else _NO_STATUS),
    )


def _attempt_span(trace: RequestTrace, attempt: TracedAttempt, epoch: int) -> bytes:
    replica, choices = attempt.replica, max(attempt.choices, 1)
    name, of_all = _shared(
        attempt.api, attempt.model, replica.id, replica.url, replica.dialect, attempt.is_stream
    )
    attributes = [of_all, _REQUEST_ID % _encode(attempt.request_id), _outcome(attempt.outcome)]
    if attempt.output_tokens_max:
        attributes.append(_MAX_TOKENS % (attempt.output_tokens_max // choices))
    if choices > 1:
        attributes.append(_CHOICES % choices)
    if attempt.session:
        attributes.append(_CONVERSATION % _encode(attempt.session))
    if attempt.workflow:
        attributes.append(_WORKFLOW % _encode(attempt.workflow))
    if attempt.cached_expected is not None:
        attributes.append(_CACHED_EXPECTED % attempt.cached_expected)
    if attempt.session_moved:
        attributes.append(_SESSION_MOVED % _encode(attempt.session_moved))
    if attempt.cache_break:
        attributes.append(_CACHE_BREAK % _encode(attempt.cache_break))
    if attempt.error_code:
        attributes.append(_ERROR_TYPE % _encode(attempt.error_code))
    _add_answer(attributes, attempt)
    return _span(
        (trace.trace_id, attempt.span_id, trace.span_id),
        (name, _CLIENT),
        (_nanos(epoch, attempt.started), _nanos(epoch, attempt.ended)),
        attributes,
        _ERROR_STATUS if attempt.error_code else _NO_STATUS,
    )


def _add_answer(attributes: list[bytes], attempt: TracedAttempt) -> None:
    """Add what is known of the engine's answer."""
    first, usage = attempt.first_data_at, attempt.usage
    if first is not None:
        attributes.append(_RESPONSE_MODEL % _encode(attempt.replica.served_name))
        if attempt.is_stream:
            attributes.append(_FIRST_CHUNK % _encode(first - attempt.started))
    if attempt.finish_reasons:
        attributes.append(_FINISH_REASONS % _string_values(attempt.finish_reasons))
    if usage is None:
        return
    attributes.append(_INPUT_TOKENS % usage.prompt_tokens)
    attributes.append(_OUTPUT_TOKENS % usage.completion_tokens)
    if usage.cached_tokens is not None:
        attributes.append(_CACHED_TOKENS % usage.cached_tokens)
    if usage.is_estimated:
        attributes.append(_ESTIMATED)


def _string_values(values: Sequence[str]) -> bytes:
    return b",".join([b'{"stringValue":%s}' % _encode(each) for each in values])


def _events(trace: RequestTrace, epoch: int) -> bytes:
    if not trace.decisions:
        return b""
    sent = b",".join([_event(each, _nanos(epoch, at)) for at, each in trace.decisions])
    return b',"events":[%s],"droppedEventsCount":%d' % (sent, trace.decisions_left)


def _event(decision: LoggedDecision, at: int) -> bytes:
    subjects = _string_values(decision.subjects[:_SUBJECTS_MAX])
    attributes = [
        _DECISION_KIND % _encode(decision.kind.value),
        _DECISION_VERDICT % _encode(decision.verdict.value),
        _DECISION_SUBJECTS % subjects,
        _DECISION_OBSERVED % _encode(decision.is_observed),
    ]
    return b'{"timeUnixNano":"%d","name":%s,"attributes":[%s]}' % (
        at,
        _encode(names.DECISION_EVENT),
        b",".join(attributes),
    )


def _span(
    ids: tuple[str, str, str],
    named: tuple[str, int],
    times: tuple[int, int],
    attributes: list[bytes],
    rest: bytes,
) -> bytes:
    """Return a span. `ids` are those of the trace, the span and its parent, which may be ""."""
    trace_id, span_id, parent_id = ids
    parent = b',"parentSpanId":"%s"' % parent_id.encode() if parent_id else b""
    return (
        b'{"traceId":"%s","spanId":"%s"%s,"name":%s,"kind":%d,"startTimeUnixNano":"%d"'
        b',"endTimeUnixNano":"%d","attributes":[%s]%s}'
    ) % (
        trace_id.encode(),
        span_id.encode(),
        parent,
        _encode(named[0]),
        named[1],
        times[0],
        times[1],
        b",".join(attributes),
        rest,
    )


def _nanos(epoch: int, at: float) -> int:
    """Return a time of the monotonic clock as nanoseconds since 1970."""
    return epoch + round(at * 10**9)


def _ms(seconds: float) -> bytes:
    return _encode(seconds * 1000)


@lru_cache(maxsize=_KEPT_MAX)
def _outcome(outcome: str) -> bytes:
    return _OUTCOME % _encode(outcome)


@lru_cache(maxsize=_KEPT_MAX)
def _shared(
    api: str, model: str, replica: str, url: str, dialect: str, is_stream: bool
) -> tuple[str, bytes]:
    """Return the name and the attributes of all such attempts at one replica."""
    operation = names.OPERATIONS.get(api, names.CHAT_OPERATION)
    address, port = _server(url)
    attributes = (
        _OPERATION % _encode(operation),
        _PROVIDER % _encode(dialect),
        _MODEL % _encode(model),
        _STREAM % _encode(is_stream),
        _ADDRESS % _encode(address),
        _PORT % port,
        _REPLICA % _encode(replica),
    )
    return f"{operation} {model}", b",".join(attributes)


def _server(url: str) -> tuple[str, int]:
    """Return an engine's host and port."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
