"""A Responses request becomes the chat request that an engine gets."""

import json
from typing import Any

import msgspec
import pytest

from penstock.errors import InvalidRequest
from penstock.wire.apis.response_object import echo_of, new_response
from penstock.wire.apis.response_to_chat import to_chat
from penstock.wire.json_body import Fields

# What the Open Responses document (2026-04-24) requires of every response.
REQUIRED = {
    "id", "object", "created_at", "completed_at", "status", "incomplete_details", "model",
    "previous_response_id", "instructions", "output", "error", "tools", "tool_choice", "truncation",
    "parallel_tool_calls", "text", "top_p", "presence_penalty", "frequency_penalty", "top_logprobs",
    "temperature", "reasoning", "usage", "max_output_tokens", "max_tool_calls", "store",
    "background", "service_tier", "metadata", "safety_identifier", "prompt_cache_key",
}  # fmt: skip
HELLO = [{"role": "user", "content": "hello"}]
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True}
HEAR = {"type": "function", "name": "hear", "description": "Hear.", "parameters": None}


def fields_of(**fields: object) -> Fields:
    return {name: msgspec.Raw(json.dumps(value).encode()) for name, value in fields.items()}


def chat_of(**fields: object) -> dict[str, Any]:
    chat = to_chat(fields_of(**fields), (), HELLO)
    return {name: json.loads(bytes(value)) for name, value in chat.items()}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {}),
        (
            {"temperature": 0.5, "top_p": 0.9, "stream": True, "model": "m"},
            {"temperature": 0.5, "top_p": 0.9, "stream": True, "model": "m"},
        ),
        ({"max_output_tokens": 9}, {"max_completion_tokens": 9}),
        ({"reasoning": {"effort": "low", "summary": "auto"}}, {"reasoning_effort": "low"}),
        ({"reasoning": {"effort": None}}, {}),
        ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, {}),
        (
            {
                "text": {
                    "format": {"type": "json_schema", "name": "a", "schema": {}, "strict": True}
                }
            },
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a", "schema": {}, "strict": True},
                }
            },
        ),
        (
            {"text": {"format": {"type": "json_object"}}},
            {"response_format": {"type": "json_object"}},
        ),
        (
            {"include": ["message.output_text.logprobs"], "top_logprobs": 3},
            {"logprobs": True, "top_logprobs": 3},
        ),
        ({"top_logprobs": 3}, {}),
        # Without meaning for chat, or not a caller's to set.
        ({"truncation": "auto", "store": False, "max_tool_calls": 3, "priority": -9}, {}),
        ({"tool_choice": "auto", "tools": []}, {}),
    ],
)
def test_options_of_chat(given: dict[str, object], expected: dict[str, object]) -> None:
    assert chat_of(**given) == {"messages": HELLO, **expected}


def test_instructions_come_first() -> None:
    first = {"role": "system", "content": "Be brief."}
    assert chat_of(instructions="Be brief.")["messages"] == [first, *HELLO]


@pytest.mark.parametrize(
    ("choice", "names", "expected"),
    [
        (None, ["look", "hear"], None),
        ("required", ["look", "hear"], "required"),
        (
            {"type": "function", "name": "look"},
            ["look", "hear"],
            {"type": "function", "function": {"name": "look"}},
        ),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"name": "hear"}]},
            ["hear"],
            "required",
        ),
        ({"type": "allowed_tools", "tools": [{"name": "hear"}]}, ["hear"], "auto"),
    ],
)
def test_tools_and_their_choice(choice: object, names: list[str], expected: object) -> None:
    chat = chat_of(tools=[LOOK, HEAR], tool_choice=choice)
    assert [tool["function"]["name"] for tool in chat["tools"]] == names
    assert chat.get("tool_choice") == expected


def test_a_function_keeps_what_it_has() -> None:
    look, hear = chat_of(tools=[LOOK, HEAR])["tools"]
    own = {"name": "look", "parameters": {"type": "object"}, "strict": True}
    assert look == {"type": "function", "function": own}
    assert hear["function"] == {"name": "hear", "description": "Hear."}


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"tools": [{"type": "computer"}]}, "tools.0"),
        ({"tools": "look"}, "tools"),
        ({"text": "short"}, "text"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format"),
        ({"tool_choice": {"type": "mcp"}, "tools": [LOOK]}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
    ],
)
def test_what_is_not_served_is_refused(given: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        chat_of(**given)
    assert refused.value.param == param


def test_call_without_its_output_is_refused_by_name() -> None:
    call = {"type": "function_call", "call_id": "c7", "name": "look", "arguments": "{}"}
    with pytest.raises(InvalidRequest, match="c7"):
        to_chat({}, [[call]], HELLO)


def test_response_repeats_what_was_asked() -> None:
    asked = fields_of(
        instructions="Be brief.",
        temperature=0.2,
        metadata={"a": "b"},
        tools=[LOOK],
        text={"verbosity": "low"},
        reasoning={"effort": "low"},
        max_output_tokens=None,
    )
    made = new_response("resp_1", 5, "m", echo_of(asked))
    response = json.loads(msgspec.json.encode(made))
    assert response.keys() >= REQUIRED
    assert response["tools"] == [{"description": None, **LOOK}]
    assert response["text"] == {"verbosity": "low", "format": {"type": "text"}}
    assert response["reasoning"] == {"effort": "low", "summary": None}
    assert (response["temperature"], response["top_p"]) == (0.2, 1.0)
    assert (response["max_output_tokens"], response["metadata"]) == (None, {"a": "b"})
