"""Reads the body of a post as a collector does, and checks the type of every attribute."""

import base64
import json
import re
from collections.abc import Iterable
from typing import Any

import msgspec
from google.protobuf.json_format import ParseDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from penstock.telemetry.span_names import SCHEMA_URL

_IDS = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
_TEXT, _INT, _DOUBLE, _BOOL = "string_value", "int_value", "double_value", "bool_value"
# The types of the registries of OpenTelemetry, and of our own attributes. No other may be sent.
TYPES = {
    "http.request.method": _TEXT,
    "http.route": _TEXT,
    "http.response.status_code": _INT,
    "error.type": _TEXT,
    "gen_ai.operation.name": _TEXT,
    "gen_ai.provider.name": _TEXT,
    "gen_ai.request.model": _TEXT,
    "gen_ai.request.stream": _BOOL,
    "gen_ai.request.max_tokens": _INT,
    "gen_ai.request.choice.count": _INT,
    "gen_ai.response.model": _TEXT,
    "gen_ai.response.time_to_first_chunk": _DOUBLE,
    "gen_ai.response.finish_reasons": "array_value",
    "gen_ai.conversation.id": _TEXT,
    "gen_ai.workflow.name": _TEXT,
    "gen_ai.usage.input_tokens": _INT,
    "gen_ai.usage.output_tokens": _INT,
    "gen_ai.usage.cache_read.input_tokens": _INT,
    "server.address": _TEXT,
    "server.port": _INT,
    "penstock.request.id": _TEXT,
    "penstock.account": _TEXT,
    "penstock.contract": _TEXT,
    "penstock.cost_usd": _DOUBLE,
    "penstock.waited_ms": _DOUBLE,
    "penstock.outcome": _TEXT,
    "penstock.job.id": _TEXT,
    "penstock.replica": _TEXT,
    "penstock.cached_expected": _INT,
    "penstock.session_moved": _TEXT,
    "penstock.cache_break": _TEXT,
    "penstock.usage_estimated": _BOOL,
    "penstock.decision.kind": _TEXT,
    "penstock.decision.verdict": _TEXT,
    "penstock.decision.subjects": "array_value",
    "penstock.decision.observed": _BOOL,
}
_RESOURCE = ("service.name", "service.version", "service.instance.id", "host.name")
_STATUS_ERROR = 2


class SentEvent(msgspec.Struct, frozen=True):
    name: str
    at_nanos: int
    attributes: dict[str, Any]


class SentSpan(msgspec.Struct, frozen=True):
    """One span as a collector reads it."""

    service: str
    name: str
    kind: str
    trace_id: str
    span_id: str
    parent_id: str
    start_nanos: int
    end_nanos: int
    attributes: dict[str, Any]
    events: list[SentEvent]
    is_error: bool


class EngineSpan(msgspec.Struct, frozen=True):
    """One span of an engine, which writes attributes of its own."""

    name: str
    trace_id: str
    parent_id: str
    start_nanos: int
    end_nanos: int
    attributes: dict[str, Any]


def read_spans(body: bytes) -> list[SentSpan]:
    """Decode a post strictly: what OTLP does not know, or has in another type, fails."""
    request = ExportTraceServiceRequest()
    ParseDict(_with_ids(json.loads(body)), request, ignore_unknown_fields=False)
    spans = []
    for resource_spans in request.resource_spans:
        resource = {
            each.key: each.value.string_value for each in resource_spans.resource.attributes
        }
        assert tuple(resource) == _RESOURCE
        assert all(resource.values())
        for scope_spans in resource_spans.scope_spans:
            assert scope_spans.schema_url == SCHEMA_URL
            assert scope_spans.scope.name == "penstock"
            spans += [_span(resource["service.name"], span) for span in scope_spans.spans]
    return spans


def read_engine_spans(body: bytes) -> list[EngineSpan]:
    """Decode a post of an engine."""
    request = ExportTraceServiceRequest.FromString(body)
    return [
        EngineSpan(
            span.name,
            span.trace_id.hex(),
            span.parent_span_id.hex(),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            {each.key: _value(each.value) for each in span.attributes},
        )
        for resource_spans in request.resource_spans
        for scope_spans in resource_spans.scope_spans
        for span in scope_spans.spans
    ]


def only_tree(spans: Iterable[SentSpan]) -> tuple[SentSpan, list[SentSpan]]:
    """The root of the only tree, and its children in the order of their starts."""
    spans = list(spans)
    assert len({span.trace_id for span in spans}) == 1
    ids = {span.span_id for span in spans}
    assert len(ids) == len(spans)
    [root] = [span for span in spans if span.parent_id not in ids]
    children = sorted((s for s in spans if s is not root), key=lambda span: span.start_nanos)
    for child in children:
        assert child.parent_id == root.span_id
        assert root.start_nanos <= child.start_nanos <= child.end_nanos <= root.end_nanos
    return root, children


def _with_ids(value: Any) -> Any:
    """Return the JSON with ids as protobuf writes bytes: OTLP has them in hexadecimal digits."""
    if isinstance(value, list):
        return [_with_ids(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, each in value.items():
        if name in _IDS:
            assert re.fullmatch(rf"[0-9a-f]{{{_IDS[name]}}}", each), (name, each)
            made[name] = base64.b64encode(bytes.fromhex(each)).decode()
        else:
            made[name] = _with_ids(each)
    return made


def _span(service: str, span: Span) -> SentSpan:
    assert span.start_time_unix_nano <= span.end_time_unix_nano
    return SentSpan(
        service=service,
        name=span.name,
        kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        start_nanos=span.start_time_unix_nano,
        end_nanos=span.end_time_unix_nano,
        attributes=_attributes(span.attributes),
        events=[
            SentEvent(each.name, each.time_unix_nano, _attributes(each.attributes))
            for each in span.events
        ],
        is_error=span.status.code == _STATUS_ERROR,
    )


def _attributes(sent: Iterable[KeyValue]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for each in sent:
        assert each.value.WhichOneof("value") == TYPES[each.key], each
        assert each.key not in made, "an attribute is sent twice"
        made[each.key] = _value(each.value)
    return made


def _value(value: AnyValue) -> Any:
    which = value.WhichOneof("value")
    assert which is not None
    if which == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, which)
