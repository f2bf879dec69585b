"""Facts of a body are the same in whichever API it is; what is malformed counts as absent."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from penstock.wire.apis.request_facts import RequestFacts

URL = "data:image/png;base64,AAAA"
CHAT_IMAGE = {"type": "image_url", "image_url": {"url": URL}}
RESPONSES_IMAGE = {"type": "input_image", "image_url": URL}
MESSAGES_IMAGE = {"type": "image", "source": {"type": "base64", "data": "AAAA"}}


def facts(body: dict[str, Any]) -> RequestFacts:
    return RequestFacts({name: Raw(msgspec.json.encode(value)) for name, value in body.items()})


def size(*values: object) -> int:
    return sum(len(msgspec.json.encode(value)) for value in values)


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({}, []),
        ({"tools": []}, []),
        ({"tools": [{"type": "function", "function": {"name": "a"}}]}, ["a"]),
        ({"functions": [{"name": "a"}, {"name": "b"}]}, ["a", "b"]),
        ({"tools": [{"type": "function", "name": "a"}, {"type": "web_search"}]},
         ["a", "web_search"]),
        ({"tools": [{"type": "mcp", "server_label": "github"}]}, ["github"]),
        ({"tools": [{"name": "a", "input_schema": {}}]}, ["a"]),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, ["bash"]),
        # Workers AI's native tools are flat.
        ({"tools": [{"name": "a", "description": "d", "parameters": {}}]}, ["a"]),
        ({"tools": [{"type": "function", "function": {"name": "a"}}], "functions": [{"name": "b"}]},
         ["a", "b"]),
        # A tool without a name still is one that is offered.
        ({"tools": [{}, {"name": 5}, {"type": "function", "function": 5}]}, ["", "", "function"]),
    ],
)  # fmt: skip
def test_tools_are_named_in_every_api(body: dict[str, Any], names: list[str]) -> None:
    assert list(facts(body).tool_names) == names


@pytest.mark.parametrize(
    ("body", "is_structured"),
    [
        ({}, False),
        ({"response_format": {"type": "json_object"}}, True),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, True),
        ({"response_format": {"type": "text"}}, False),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, True),
        ({"text": {"format": {"type": "text"}}}, False),
        ({"text": {"verbosity": "low"}}, False),
        ({"output_config": {"format": {"type": "json_schema", "schema": {}}}}, True),
        ({"output_config": {"effort": "low"}}, False),
    ],
)
def test_a_structured_answer_is_seen_in_every_api(
    body: dict[str, Any], is_structured: bool
) -> None:
    assert facts(body).is_structured is is_structured


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 5}, 5),
        ({"max_tokens": 9, "max_completion_tokens": 5}, 5),
        ({"max_tokens": 9, "max_completion_tokens": None}, 9),
        ({"max_output_tokens": 5}, 5),
        ({"max_tokens": 0}, 0),
    ],
)
def test_the_callers_bound_of_an_answer_is_that_which_the_engine_uses(
    body: dict[str, Any], tokens: int | None
) -> None:
    assert facts(body).output_tokens_max == tokens


def test_stream_and_reasoning_effort_are_read() -> None:
    assert facts({"stream": True}).is_stream
    assert not facts({"stream": False}).is_stream
    assert not facts({}).is_stream
    assert facts({"reasoning_effort": "low"}).reasoning_effort == "low"
    assert facts({"reasoning": {"effort": "high", "summary": "auto"}}).reasoning_effort == "high"
    assert facts({}).reasoning_effort == ""


SYSTEM = {"role": "system", "content": "Be brief."}
LATER = [{"role": "assistant", "content": "yes"}, user("and a longer one")]
TOOL = {"type": "function", "function": {"name": "a"}}


@pytest.mark.parametrize(
    ("body", "counted"),
    [
        ({}, 0),
        ({"messages": [SYSTEM, user("hi"), *LATER]}, size("Be brief.", "hi")),
        ({"messages": [user("hi"), *LATER], "system": "Be brief."}, size("Be brief.", "hi")),
        ({"messages": [user([CHAT_IMAGE]), *LATER]}, size([CHAT_IMAGE])),
        ({"messages": [SYSTEM], "tools": [TOOL]}, size("Be brief.", [TOOL])),
        ({"messages": [user("hi")], "functions": [TOOL]}, size("hi", [TOOL])),
        ({"input": "hi", "instructions": "Be brief."}, size("hi", "Be brief.")),
        ({"input": [user("hi"), *LATER]}, size("hi")),
        ({"input": [{"type": "message", **user("hi")}, *LATER]}, size("hi")),
        ({"prompt": "hi"}, size("hi")),
        ({"prompt": ["one", "two"]}, size(["one", "two"])),
        ({"prompt": [1, 2, 3]}, size([1, 2, 3])),
        ({"input": ["one", "two"]}, size(["one", "two"])),
        # Workers AI takes a null beside what is given.
        ({"messages": None, "prompt": "hi"}, size("hi")),
    ],
)
def test_the_opening_is_tools_instructions_and_the_first_user_message(
    body: dict[str, Any], counted: int
) -> None:
    assert facts(body).opening_bytes == counted


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [SYSTEM, user([{"type": "text", "text": "x"}, CHAT_IMAGE])]},
        {"messages": [user([MESSAGES_IMAGE])]},
        {"input": [user([RESPONSES_IMAGE])]},
        {"input": [user([{"type": "input_image", "file_id": "f"}])]},
    ],
)
@pytest.mark.parametrize("indent", [0, 2])
def test_images_are_seen_in_the_opening_and_anywhere(body: dict[str, Any], indent: int) -> None:
    ((name, turns),) = body.items()

    def written(value: object) -> RequestFacts:
        return RequestFacts(
            {name: Raw(msgspec.json.format(msgspec.json.encode(value), indent=indent))}
        )

    opening = written(turns)
    assert opening.has_images
    assert opening.may_need_vision
    later = written([user("hi"), *turns])
    assert not later.has_images
    assert later.may_need_vision


@pytest.mark.parametrize(
    "text", ["image", "image_url", "input_image", '{"type": "image_url", "image_url": ""}']
)
def test_words_about_images_are_none(text: str) -> None:
    called = {"role": "assistant", "tool_calls": [{"function": {"name": text, "arguments": text}}]}
    seen = facts({"messages": [user(text), user([{"type": "text", "text": text}]), called]})
    assert not seen.has_images
    assert not seen.may_need_vision


FIELDS = (
    "stream", "tools", "functions", "response_format", "text", "output_config", "system",
    "instructions", "messages", "input", "prompt", "max_completion_tokens", "max_output_tokens",
    "max_tokens", "reasoning", "reasoning_effort",
)  # fmt: skip
ABSENT = {
    "is_stream": False,
    "tool_names": [],
    "is_structured": False,
    "has_images": False,
    "may_need_vision": False,
    "output_tokens_max": None,
    "reasoning_effort": "",
}


def read_all(seen: RequestFacts) -> dict[str, object]:
    return {name: getattr(seen, name) for name in ABSENT}


@pytest.mark.parametrize(
    "body",
    [
        {"stream": 1}, {"stream": "true"}, {"stream": None},
        {"tools": 5}, {"tools": "a"}, {"tools": {"name": "a"}}, {"tools": [5, None, "a", []]},
        {"functions": {"a": 1}}, {"response_format": "json"}, {"response_format": []},
        {"response_format": {}}, {"response_format": {"type": 5}},
        {"text": "json"}, {"text": {"format": 5}}, {"text": {"format": {"type": None}}},
        {"output_config": [1]}, {"output_config": {"format": "x"}},
        {"max_tokens": "5"}, {"max_tokens": True}, {"max_tokens": 1.5}, {"max_tokens": [5]},
        {"reasoning": "high"}, {"reasoning": {"effort": 5}}, {"reasoning_effort": 5},
        {"messages": 5}, {"messages": {}}, {"messages": [5]}, {"messages": [[]]},
        {"messages": [{"role": 5, "content": None}]}, {"messages": [{}]}, {"input": None},
        {"input": {}}, {"prompt": 5},
    ],
)  # fmt: skip
def test_malformed_values_count_as_absent(body: dict[str, Any]) -> None:
    assert read_all(facts(body)) == ABSENT


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=5)
    | st.sampled_from(("user", "text", "function", "json_object")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(("role", "content", "type", "name", "function", "format", "effort",
                         "server_label")),
        inner, max_size=3,
    ),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5))
def test_any_json_has_facts_of_their_own_kinds(body: dict[str, Any]) -> None:
    seen = facts(body)
    assert isinstance(seen.is_stream, bool)
    assert isinstance(seen.is_structured, bool)
    assert isinstance(seen.has_images, bool)
    assert isinstance(seen.may_need_vision, bool)
    assert all(isinstance(name, str) for name in seen.tool_names)
    assert seen.output_tokens_max is None or type(seen.output_tokens_max) is int
    assert isinstance(seen.reasoning_effort, str)
    assert 0 <= seen.opening_bytes <= size(*body.values())


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize(
    "value", [b"[" * 5000 + b"]" * 5000, b'{"a":' * 5000 + b"1" + b"}" * 5000, b"1" * 5000]
)
def test_values_that_cannot_be_read_at_all_raise_nothing(name: str, value: bytes) -> None:
    seen = RequestFacts({name: Raw(value)})
    assert read_all(seen) == ABSENT
    assert seen.opening_bytes in (0, len(value))
