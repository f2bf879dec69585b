"""The dialect of servers that are not vLLM: what they are sent, and how their streams are read."""

import json
from typing import Any

import pytest
from msgspec import Raw
from tests.unit.engine.engine_line import make_request

from penstock.engine.dialects.openai import request_body
from penstock.engine.output_estimate import OutputEstimate
from penstock.engine.plain_events import PlainEvents
from penstock.errors import EngineFailed
from penstock.records.usage import Usage
from penstock.wire.engine_usage import read_usage

COUNTS = {"prompt_tokens": 26, "completion_tokens": 2, "total_tokens": 28}
DONE = b"data: [DONE]\n\n"


def event(body: dict[str, Any], end: str = "\n", separators: tuple[str, str] = (",", ":")) -> bytes:
    return f"data: {json.dumps(body, separators=separators)}{end * 2}".encode()


def token(text: str, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    return {"id": "x", "choices": [choice], **more}


def stream(*, wants_usage: bool = False, event_bytes_max: int = 1 << 20) -> PlainEvents:
    return PlainEvents(
        wants_usage=wants_usage,
        event_bytes_max=event_bytes_max,
        estimate=OutputEstimate(7, 0, 100),
    )


def test_only_fields_of_openais_api_go_up() -> None:
    body = {"messages": [], "stream": True, "priority": 3, "temperature": 0.5}
    request = make_request(body=json.dumps(body).encode(), is_stream=True)
    sent = json.loads(b"".join(request_body(request, Raw(b'"served"'))))
    given = {"messages", "stream", "temperature"}
    assert sent.keys() == {*given, "model", "max_tokens", "stream_options"}
    assert sent["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("size", [1, 7, 10_000])
@pytest.mark.parametrize("wants_usage", [False, True])
def test_count_is_read_however_it_is_written_and_relayed_if_asked_for(
    end: str, separators: tuple[str, str], size: int, wants_usage: bool
) -> None:
    tokens = [event(token(text, usage=None), end, separators) for text in ("Hel", "lo\r\n")]
    count = event({"choices": [], "usage": COUNTS, "timings": {"n": 1}}, end, separators)
    sent = b"".join([*tokens, count, f"data: [DONE]{end * 2}".encode()])
    reading = stream(wants_usage=wants_usage)
    got = b"".join(reading.feed(sent[at : at + size]) for at in range(0, len(sent), size))
    kept = [*tokens, count] if wants_usage else tokens
    assert got == b"".join(kept).replace(b"\r\n", b"\n") + DONE
    assert reading.is_done
    assert reading.usage() == Usage(26, 2, None)


def test_cached_tokens_are_counted_where_a_server_reports_them() -> None:
    reading = stream()
    reading.feed(
        event({"choices": [], "usage": {**COUNTS, "prompt_tokens_details": {"cached_tokens": 16}}})
    )
    assert reading.usage() == Usage(26, 2, 16)


def test_until_the_count_comes_usage_is_an_estimate_of_a_token_for_each_event() -> None:
    reading = stream()
    assert reading.usage() is None
    assert reading.latest() is None
    reading.feed(b": ping\n\n" + event(token("Hel")) + event(token("lo")))
    usage = reading.usage()
    assert usage == Usage(7, 2, 0, is_estimated=True)
    raw = reading.latest()
    assert raw is not None
    assert read_usage(raw) == usage


def test_error_ends_the_stream_as_one() -> None:
    reading = stream()
    failed = event({"error": {"message": "out of memory"}})
    assert reading.feed(failed) == failed
    assert reading.has_error


def test_event_without_an_end_is_refused_at_its_bound() -> None:
    with pytest.raises(EngineFailed):
        stream(event_bytes_max=100).feed(b"data: " + b"x" * 200)
