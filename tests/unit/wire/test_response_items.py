"""Items become chat messages, and what was rendered for a turn is a prefix of the next one's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import InvalidRequest
from penstock.wire.apis.response_items import Item, Message, missing_outputs, render


def message(role: str, content: object) -> Item:
    return {"type": "message", "role": role, "content": content}


def call(id: str = "c1", arguments: str = "{}") -> Item:
    return {"type": "function_call", "call_id": id, "name": "look", "arguments": arguments}


def output(text: object, id: str = "c1") -> Item:
    return {"type": "function_call_output", "call_id": id, "output": text}


def reasoning(text: str) -> Item:
    return {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": text}],
    }


def said(text: str) -> Item:
    part = {"type": "output_text", "text": text, "annotations": []}
    return message("assistant", [part])


CALLED = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([{"role": "user", "content": "hi"}], [{"role": "user", "content": "hi"}]),
        ([message("developer", "be brief")], [{"role": "system", "content": "be brief"}]),
        (
            [message("user", [{"type": "input_text", "text": "one"}])],
            [{"role": "user", "content": "one"}],
        ),
        (
            [
                message(
                    "user",
                    [
                        {"type": "input_text", "text": "what is it?"},
                        {"type": "input_image", "image_url": "data:x", "detail": "low"},
                    ],
                )
            ],
            [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "what is it?"},
                        {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}},
                    ],
                }
            ],
        ),
        (
            [reasoning("hm"), said("I look."), call()],
            [
                {
                    "role": "assistant",
                    "reasoning": "hm",
                    "content": "I look.",
                    "tool_calls": [CALLED],
                }
            ],
        ),
        (
            [
                call("c1", ""),
                call("c2"),
                output("a"),
                output([{"type": "input_text", "text": "b"}], "c2"),
            ],
            [
                {"role": "assistant", "tool_calls": [CALLED, {**CALLED, "id": "c2"}]},
                {"role": "tool", "tool_call_id": "c1", "content": "a"},
                {"role": "tool", "tool_call_id": "c2", "content": "b"},
            ],
        ),
        (
            [said("one"), said("two"), reasoning("hm"), call()],
            [
                {"role": "assistant", "content": "one"},
                {"role": "assistant", "content": "two"},
                {"role": "assistant", "reasoning": "hm", "tool_calls": [CALLED]},
            ],
        ),
        (
            [{"type": "reasoning", "summary": [], "encrypted_content": "x"}, said("one")],
            [{"role": "assistant", "content": "one"}],
        ),
        (
            [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "short"}]}],
            [{"role": "assistant", "reasoning": "short"}],
        ),
        (
            [message("assistant", [{"type": "refusal", "refusal": "no"}])],
            [{"role": "assistant", "content": "no"}],
        ),
    ],
)
def test_items_become_messages(items: list[Item], expected: list[Message]) -> None:
    assert render([items]) == expected


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "web_search_call"}, "input.0"),
        ({"role": "robot", "content": "x"}, "input.0.role"),
        ({"role": "user"}, "input.0.content"),
        ({"role": "user", "content": 1}, "input.0.content"),
        ({"role": "user", "content": ["x"]}, "input.0.content"),
        ({"role": "user", "content": [{"type": "input_file"}]}, "input.0.content.0"),
        ({"role": "user", "content": [{"type": "input_image"}]}, "input.0.content.0"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "input.0.content.0.text"),
        ({"type": "function_call", "name": "x", "arguments": "{}"}, "input.0.call_id"),
        ({"type": "function_call", "name": 1, "arguments": "{}", "call_id": "c"}, "input.0.name"),
        ({"type": "function_call_output", "call_id": "c"}, "input.0.output"),
        (
            output([{"type": "input_image", "image_url": "data:x"}]),
            "input.0.output.0",
        ),
    ],
)
def test_what_cannot_be_rendered_is_refused_by_its_place(item: Item, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        render([[item]])
    assert refused.value.param == param


def test_calls_without_an_output_are_named() -> None:
    assert missing_outputs([[call("a"), call("b")], [output("x", "a")]]) == ["b"]
    assert missing_outputs([[call("a")], [output("x", "a"), message("user", "go on")]]) == []


TEXT = st.text(max_size=8)
ITEMS = st.lists(
    st.one_of(
        st.builds(message, st.sampled_from(["user", "assistant", "system"]), TEXT),
        st.builds(call, st.sampled_from("abc")),
        st.builds(output, TEXT, st.sampled_from("abc")),
        st.builds(reasoning, TEXT),
        st.builds(said, TEXT),
    ),
    max_size=6,
)


@given(st.lists(ITEMS, max_size=6))
def test_messages_of_a_turn_are_a_prefix_of_the_next_turns(groups: list[list[Any]]) -> None:
    for turns in range(len(groups)):
        before, after = render(groups[:turns]), render(groups[: turns + 1])
        assert after[: len(before)] == before
