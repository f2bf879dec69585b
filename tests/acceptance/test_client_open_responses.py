"""The Open Responses suite's cases: each answer and event is one that its models take.

The suite itself is a program for bun that is not published as a package. `store` is never sent.
"""

import json
from itertools import groupby
from typing import Any

import pytest
from tests.acceptance.client_cell import KIMI, ClientCell
from tests.acceptance.client_run import run_python

TEXT_EVENTS = [
    "response.output_item.added",
    "response.content_part.added",
    "response.output_text.delta",
    "response.output_text.done",
    "response.content_part.done",
    "response.output_item.done",
]
CALL_EVENTS = [
    "response.output_item.added",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.done",
]
THOUGHT_EVENTS = [
    "response.output_item.added",
    # The document says `response.reasoning.delta`, OpenAI's API and its clients this.
    "response.reasoning_text.delta",
    "response.reasoning_text.done",
    "response.output_item.done",
]


def run(cell: ClientCell, case: str) -> Any:
    cell.forget()
    # A model that sees: the suite sends all its cases to one.
    return run_python("open_responses.py", cell, case=case, model=KIMI)


def messages(cell: ClientCell) -> list[Any]:
    """The messages of the last request that the engine got."""
    sent: list[Any] = cell.requests()[-1]["body"]["messages"]
    return sent


def check_text(response: dict[str, Any]) -> str:
    """The response is one message, complete, counted and stored; return its text."""
    assert (response["status"], response["store"]) == ("completed", True)
    assert response["has_usage"]
    (message,) = response["output"]
    assert (message["type"], message["role"]) == ("message", "assistant")
    text: str = message["content"][0]["text"]
    assert text
    return text


def check_call(response: dict[str, Any], name: str) -> None:
    """The response is one call of a function, complete."""
    assert response["status"] == "completed"
    (call,) = response["output"]
    assert (call["type"], call["name"], call["status"]) == ("function_call", name, "completed")
    assert json.loads(call["arguments"]).keys() == {"city"}


@pytest.mark.parametrize(
    ("case", "sent"),
    [
        ("basic", [("user", "Say hello.")]),
        ("system_prompt", [("system", "Be a pirate."), ("user", "Say hello.")]),
        (
            "multi_turn",
            [("user", "My name is Ada."), ("assistant", "Hello."), ("user", "What is my name?")],
        ),
    ],
)
def test_text_is_answered_to_all_that_was_said(
    scripted_cell: ClientCell, case: str, sent: list[tuple[str, str]]
) -> None:
    check_text(run(scripted_cell, case))
    got = [(message["role"], message["content"]) for message in messages(scripted_cell)]
    assert got == sent


@pytest.mark.parametrize(
    ("case", "events", "status"),
    [
        ("streaming", TEXT_EVENTS, "completed"),
        ("thinking", [*THOUGHT_EVENTS, *TEXT_EVENTS], "completed"),
        ("streamed_tool_calling", CALL_EVENTS, "completed"),
        ("cut_short", TEXT_EVENTS, "incomplete"),
        ("failing", TEXT_EVENTS, "failed"),
    ],
)
def test_stream_has_the_documents_events_in_order(
    scripted_cell: ClientCell, case: str, events: list[str], status: str
) -> None:
    told = run(scripted_cell, case)
    assert told["names"] == told["types"]
    assert told["end"] == "data: [DONE]"
    assert told["numbers"] == list(range(len(told["numbers"])))
    # Each kind once, however many pieces there are.
    assert [type for type, _ in groupby(told["types"])] == [
        "response.created", "response.in_progress", *events, f"response.{status}",
    ]  # fmt: skip
    response = told["response"]
    assert (response["status"], response["store"]) == (status, True)
    if case == "streamed_tool_calling":
        check_call(response, "weather")


def test_tool_is_called(scripted_cell: ClientCell) -> None:
    check_call(run(scripted_cell, "tool_calling"), "weather")


def test_result_of_a_named_tool_goes_on_from_the_stored_call(scripted_cell: ClientCell) -> None:
    told = run(scripted_cell, "function_call_roundtrip")
    check_call(told["asked"], "weather")
    check_text(told["done"])
    assert told["done"]["previous"] == told["asked"]["id"]
    first, _ = (request["body"] for request in scripted_cell.requests())
    assert first["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    question, call, result = messages(scripted_cell)
    assert question["content"] == "Is it raining in Porto?"
    assert call["tool_calls"][0]["id"] == result["tool_call_id"]
    assert result["content"] == "Rain."


def test_only_allowed_tools_are_called(scripted_cell: ClientCell) -> None:
    free, forced = run(scripted_cell, "allowed_tools")
    check_text(free)
    check_call(forced, "tides")
    assert free["choice"]["type"] == "allowed_tools"
    for request in scripted_cell.requests():
        assert [tool["function"]["name"] for tool in request["body"]["tools"]] == ["tides"]


def test_image_reaches_the_engine(scripted_cell: ClientCell) -> None:
    check_text(run(scripted_cell, "image_input"))
    (message,) = messages(scripted_cell)
    assert [part["type"] for part in message["content"]] == ["text", "image_url"]
    assert message["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")


def test_file_is_refused_by_its_place_in_the_input(scripted_cell: ClientCell) -> None:
    told = run(scripted_cell, "file_input")
    assert told["status"] == 400
    assert told["error"]["param"] == "input.0.content.1"
    assert "`input_file`" in told["error"]["message"]
    assert scripted_cell.requests() == []


def test_response_goes_on_from_one_that_was_stored_unasked(scripted_cell: ClientCell) -> None:
    first, second = run(scripted_cell, "previous_response_id")
    text = check_text(first)
    check_text(second)
    assert second["previous"] == first["id"]
    assert [message["content"] for message in messages(scripted_cell)] == [
        "Remember the word papaya.", text, "Which?",
    ]  # fmt: skip


def test_compaction_is_one_that_the_models_take(scripted_cell: ClientCell) -> None:
    assert run(scripted_cell, "compaction")["kinds"] == ["message", "compaction"]
