"""The events of a background response: whole, in order, the same every time."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from penstock.wire.apis.chat_to_response import ResponseComposer
from penstock.wire.apis.response_events import response_events
from penstock.wire.apis.response_object import echo_of, new_response

KEY = "0198" + "0" * 28
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
Body = dict[str, Any]
_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def ended(message: Body, finish: str = "stop") -> Body:
    """A response that has the answer of an engine."""
    response = new_response(f"resp_{KEY}", 1, "m", echo_of({}))
    answer = {"choices": [{"message": message, "finish_reason": finish}]}
    ResponseComposer(response, lambda: 2.0).answer(json.dumps(answer).encode())
    return json.loads(json.dumps(response, default=lambda raw: json.loads(bytes(raw))))  # type: ignore[no-any-return]


def events_of(response: Body) -> list[Body]:
    events = []
    for written in response_events(response):
        name, data, *rest = written.decode().split("\n")
        assert rest == ["", ""]
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        _EVENT.validate_python(event)
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def test_queued_response_has_two_events_that_stay() -> None:
    response = ended({"content": "hello"})
    queued = {**response, "status": "queued", "output": [], "usage": None, "completed_at": None}
    before, after = events_of(queued), events_of(response)
    assert [event["type"] for event in before] == ["response.created", "response.queued"]
    assert after[:2] == before


def test_every_kind_of_item_is_begun_written_and_ended() -> None:
    response = ended({"reasoning": "Hm.", "content": "hello", "tool_calls": [CALL]})
    types = [event["type"].removeprefix("response.") for event in events_of(response)]
    assert types == [
        "created", "queued", "in_progress",
        "output_item.added", "reasoning_text.delta", "reasoning_text.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done",
        "output_item.added", "function_call_arguments.delta", "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]  # fmt: skip
    assert events_of(response)[-1]["response"] == response


@pytest.mark.parametrize(
    ("status", "last"),
    [("failed", "failed"), ("cancelled", "incomplete"), ("incomplete", "incomplete")],
)
def test_stream_ends_by_the_status(status: str, last: str) -> None:
    response = {**ended({"content": "hello"}), "status": status}
    event = events_of(response)[-1]
    assert event["type"] == f"response.{last}"
    assert event["response"]["status"] == status


@given(st.text(), st.text(), st.lists(st.text(min_size=1), max_size=3))
def test_events_have_what_the_response_has(reasoning: str, text: str, names: list[str]) -> None:
    calls = [
        {"id": str(at), "function": {"name": name, "arguments": name}}
        for at, name in enumerate(names)
    ]
    response = ended({"reasoning": reasoning, "content": text, "tool_calls": calls})
    events = events_of(response)
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == response["output"]
    deltas = [event for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(event["delta"] for event in deltas) == text
