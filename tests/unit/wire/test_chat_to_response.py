"""A chat answer becomes a response: the same object streamed, whole, and cut anywhere."""

import json
from typing import Any

import msgspec
import pytest

from penstock.errors import EngineFailed
from penstock.wire.apis.chat_to_response import ResponseComposer
from penstock.wire.apis.response_object import echo_of, new_response

USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 7,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 3},
}
KEY = "0123456789abcdef0123456789abcdef"
GONE = {"code": "engine_lost", "message": "gone"}


def composer() -> ResponseComposer:
    return ResponseComposer(new_response(f"resp_{KEY}", 1000, "m", echo_of({})), lambda: 1010.9)


def chunk(finish: str | None = None, usage: Any = None, **delta: object) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"choices": choices, "usage": usage}).encode() + b"\n\n"


def tool(index: int, **fields: object) -> dict[str, object]:
    return {"index": index, **fields}


CHUNKS = [
    chunk(role="assistant", content=""),
    chunk(reasoning="Let me "),
    chunk(reasoning_content="see."),
    chunk(content="I will "),
    chunk(content="look."),
    chunk(tool_calls=[tool(0, id="c1", function={"name": "look", "arguments": ""})]),
    chunk(tool_calls=[tool(0, function={"arguments": '{"at": '})]),
    chunk(tool_calls=[tool(0, function={"arguments": "1}"})]),
    chunk(tool_calls=[tool(1, id="c2", function={"name": "hear", "arguments": "{}"})]),
    chunk(finish="tool_calls"),
    b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\n",
    b"data: [DONE]\n\n",
]
WHOLE = {
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {
                "role": "assistant",
                "reasoning": "Let me see.",
                "content": "I will look.",
                "tool_calls": [
                    {"id": "c1", "function": {"name": "look", "arguments": '{"at": 1}'}},
                    {"id": "c2", "function": {"name": "hear", "arguments": "{}"}},
                ],
            },
        }
    ],
    "usage": USAGE,
}


def written(response: dict[str, Any]) -> Any:
    return json.loads(msgspec.json.encode(response))


def read(events: bytes) -> list[dict[str, Any]]:
    """Parse events, each of whose name is the type in its data."""
    found = []
    for event in events.split(b"\n\n")[:-1]:
        name, data = event.split(b"\n")
        parsed = json.loads(data.removeprefix(b"data: "))
        assert name == f"event: {parsed['type']}".encode()
        found.append(parsed)
    return found


def test_events_of_all_kinds_of_items_come_in_order() -> None:
    made = composer()
    events = read(b"".join(map(made.events, CHUNKS)) + made.end())
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [
        (event["type"].removeprefix("response."), event.get("output_index")) for event in events
    ] == [
        ("created", None),
        ("in_progress", None),
        ("output_item.added", 0),
        ("reasoning_text.delta", 0),
        ("reasoning_text.delta", 0),
        ("reasoning_text.done", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("content_part.added", 1),
        ("output_text.delta", 1),
        ("output_text.delta", 1),
        ("output_text.done", 1),
        ("content_part.done", 1),
        ("output_item.done", 1),
        ("output_item.added", 2),
        ("function_call_arguments.delta", 2),
        ("function_call_arguments.delta", 2),
        ("output_item.added", 3),
        ("function_call_arguments.delta", 3),
        ("function_call_arguments.done", 2),
        ("output_item.done", 2),
        ("function_call_arguments.done", 3),
        ("output_item.done", 3),
        ("completed", None),
    ]
    assert events[2]["item"]["id"] == f"rs_{KEY}o0"
    of_message = [event for event in events if event.get("output_index") == 1]
    assert {event.get("item_id", f"msg_{KEY}o1") for event in of_message} == {f"msg_{KEY}o1"}


def test_streamed_and_whole_give_the_same_response() -> None:
    streamed = composer()
    for each in CHUNKS:
        streamed.events(each)
    last = read(streamed.end())[-1]["response"]
    whole = composer().answer(json.dumps(WHOLE).encode())
    assert last == written(whole) == written(streamed.response)
    assert [item["type"] for item in whole["output"]] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]
    assert {item["status"] for item in whole["output"]} == {"completed"}
    assert whole["usage"] == {
        "input_tokens": 100,
        "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 3},
        "total_tokens": 107,
    }
    assert (whole["status"], whole["completed_at"]) == ("completed", 1010)


@pytest.mark.parametrize("at", range(len(CHUNKS) + 1))
@pytest.mark.parametrize("how", ["fail", "cancel"])
def test_wherever_a_stream_is_cut_every_item_is_ended(at: int, how: str) -> None:
    made = composer()
    events = b"".join(map(made.events, CHUNKS[:at]))
    events += made.fail(GONE) if how == "fail" else made.cancel()
    found = read(events)
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    added = [e["output_index"] for e in found if e["type"] == "response.output_item.added"]
    done = [e["output_index"] for e in found if e["type"] == "response.output_item.done"]
    assert added == sorted(done) == list(range(len(added)))
    last = found[-1]
    assert found[0]["type"] == "response.created"
    if how == "fail":
        assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
        assert last["response"]["error"] == GONE
    else:
        # openai's SDK takes `response.cancelled` for an event of its audio API.
        assert (last["type"], last["response"]["status"]) == ("response.incomplete", "cancelled")
    assert all(item["status"] != "in_progress" for item in last["response"]["output"])


@pytest.mark.parametrize(
    ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_answer_that_was_cut_short_is_incomplete(finish: str, reason: str) -> None:
    made = composer()
    made.events(chunk(content="and the"))
    made.events(chunk(finish=finish))
    *_, done, last = read(made.end())
    assert done["item"]["status"] == "incomplete"
    assert (last["type"], last["response"]["status"]) == ("response.incomplete", "incomplete")
    assert last["response"]["incomplete_details"] == {"reason": reason}
    assert last["response"]["completed_at"] is None


def test_usage_of_a_cut_stream_is_the_last_that_was_counted() -> None:
    made = composer()
    made.events(chunk(content="a", usage={"prompt_tokens": 5, "completion_tokens": 1}))
    made.events(chunk(content="b", usage={"prompt_tokens": 5, "completion_tokens": 2}))
    last = read(made.fail(GONE))[-1]
    assert last["response"]["usage"]["output_tokens"] == 2


def test_log_probabilities_are_passed_on() -> None:
    made = composer()
    entry = {"token": "a", "logprob": -0.5, "bytes": [97], "top_logprobs": []}
    choices = [{"delta": {"content": "a"}, "logprobs": {"content": [entry]}}]
    delta = read(made.events(b"data: " + json.dumps({"choices": choices}).encode() + b"\n\n"))[-1]
    assert delta["logprobs"] == [entry]
    assert read(made.end())[-1]["response"]["output"][0]["content"][0]["logprobs"] == [entry]


def test_a_call_without_an_id_gets_one() -> None:
    made = composer()
    made.events(chunk(tool_calls=[tool(0, function={"name": "look", "arguments": "{}"})]))
    made.end()
    assert made.response["output"][0]["call_id"] == f"call_{KEY}0"


@pytest.mark.parametrize("data", [b"data: {\n\n", b'data: {"choices": 1}\n\n', b"data: []\n\n"])
def test_an_answer_of_unknown_shape_is_the_engines_failure(data: bytes) -> None:
    made = composer()
    with pytest.raises(EngineFailed):
        made.events(chunk(content="Half a ") + data + CHUNKS[-1])
    made.complete()
    last = read(made.end())[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["output"][0]["status"] == "incomplete"


ERROR = b'data: {"error": {"message": "EngineCore encountered an issue.", "code": 500}}\n\n'


@pytest.mark.parametrize("at", range(len(CHUNKS)))
def test_error_that_the_engine_reports_in_a_stream_fails_the_response(at: int) -> None:
    made = composer()
    # What comes after the error is no part of the answer.
    events = b"".join(map(made.events, [*CHUNKS[:at], ERROR + b"".join(CHUNKS[at:])]))
    made.complete()
    last = read(events + made.end())[-1]
    assert (last["type"], last["response"]["status"]) == ("response.failed", "failed")
    assert last["response"]["error"]["code"] == "engine_failed"
    assert all(item["status"] != "in_progress" for item in last["response"]["output"])
    before = composer()
    before.events(b"".join(CHUNKS[:at]))
    assert len(last["response"]["output"]) == len(before.response["output"])


def test_error_instead_of_a_whole_answer_is_the_engines_failure() -> None:
    with pytest.raises(EngineFailed):
        composer().answer(ERROR.removeprefix(b"data: "))
