"""A native stream: text under `response`, tools and usage at the top, `[DONE]` at the end."""

import json

import pytest

from penstock.wire.apis.native_stream import native_events

DONE = b"data: [DONE]\n\n"
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def event(**chunk: object) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def delta(finish_reason: str | None = None, **fields: object) -> bytes:
    choice = {"index": 0, "delta": fields, "logprobs": None, "finish_reason": finish_reason}
    return event(id="x", object="chat.completion.chunk", choices=[choice])


def native(data: bytes) -> list[object]:
    lines = native_events(data).split(b"\n\n")
    assert lines.pop() == b""
    return [
        line.decode() if line == DONE[:-2] else json.loads(line.removeprefix(b"data: "))
        for line in lines
    ]


def test_text_comes_as_response() -> None:
    stream = delta(role="assistant", content="") + delta(content="Né") + delta(content='w "')
    assert native(stream) == [{"response": ""}, {"response": "Né"}, {"response": 'w "'}]


def test_several_events_of_one_read_are_all_kept_in_order() -> None:
    stream = b"".join(delta(content=str(n)) for n in range(20)) + DONE
    assert native(stream) == [*({"response": str(n)} for n in range(20)), "data: [DONE]"]


def test_end_mark_goes_through() -> None:
    assert native_events(DONE) == DONE


def test_tool_deltas_come_at_the_top_as_the_engine_wrote_them() -> None:
    call = {"index": 0, "id": "functions.f:0", "function": {"name": "f", "arguments": ""}}
    assert native(delta(content=None, tool_calls=[call])) == [
        {"response": "", "tool_calls": [call]}
    ]


def test_usage_comes_on_a_late_event() -> None:
    with_choice = event(choices=[{"index": 0, "delta": {"content": "a"}}], usage=USAGE)
    assert native(with_choice) == [{"response": "a", "usage": USAGE}]
    assert native(event(choices=[], usage=USAGE)) == [{"response": "", "usage": USAGE}]


def test_null_usage_is_no_usage() -> None:
    choice = {"index": 0, "delta": {"content": "a"}}
    assert native(event(choices=[choice], usage=None)) == [{"response": "a"}]
    assert native_events(event(choices=[], usage=None)) == b""


def test_error_goes_through_untouched() -> None:
    error = event(error={"message": "out of memory", "code": 500})
    assert native_events(error) == error
    assert native(event(error=None, choices=[{"delta": {"content": "a"}}])) == [{"response": "a"}]


def test_comments_go_through() -> None:
    assert native_events(b": keepalive\n\n" + delta(content="a")).startswith(
        b": keepalive\n\ndata:"
    )


@pytest.mark.parametrize("data", [b"", b"data: x\n\n", b"data: []\n\n", b'data: {"choices":1}\n\n'])
def test_what_is_no_chunk_is_left_out(data: bytes) -> None:
    assert native_events(data) == b""


def test_text_that_looks_like_an_end_mark_stays_text() -> None:
    text = "data: [DONE]\n\n"
    assert native(delta(content=text)) == [{"response": text}]
