"""A Responses request: what is read is strict, references are refused, the rest goes on."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from penstock.errors import Error, InvalidRequest, StateUnavailable
from penstock.records.model import Capability
from penstock.records.prompt_chain import PromptChain
from penstock.wire.apis.hosted_tools import drop_hosted_tools, drop_namespaces
from penstock.wire.apis.prompt_request import PromptRequest
from penstock.wire.apis.responses import read_responses
from penstock.wire.json_body import read_fields, write_fields
from penstock.wire.prompt.chain import prompt_chain
from penstock.wire.prompt.family import PromptFamilies

NO_HOSTS = frozenset[str]()
TOOL = {"type": "function", "name": "f", "parameters": {}}
USER = {"role": "user", "content": "hi"}
PIXEL = "data:image/png;base64,iVBORw0KGgo="


def read(*, hosts: frozenset[str] = NO_HOSTS, **fields: object) -> PromptRequest:
    body = {"model": "m", "input": "hi", **fields}
    return read_responses(read_fields(json.dumps(body).encode()), hosts)


def chain(**fields: Any) -> PromptChain:
    asked = read(**fields)
    return prompt_chain(1, asked.fields, asked.messages, asked.media, 3000)


def test_plain_request_has_the_defaults_and_goes_on_as_it_came() -> None:
    body = {"model": "m", "input": "hi", "x": [1, 2.50], "include": ["a"], "client_metadata": {}}
    asked = read_responses(read_fields(json.dumps(body).encode()), NO_HOSTS)
    assert json.loads(write_fields(asked.fields)) == body
    assert (asked.is_stream, asked.choices, asked.max_tokens) == (False, 1, None)
    assert (asked.cache_key, asked.needs) == ("", frozenset())
    assert asked.max_tokens_field == "max_output_tokens"


def test_what_is_asked_is_read() -> None:
    asked = read(
        stream=True,
        max_output_tokens=9,
        prompt_cache_key="k",
        metadata={"workflow": "w"},
        options={"rejectIfBusy": True},
    )
    assert (asked.is_stream, asked.max_tokens, asked.cache_key) == (True, 9, "k")
    assert (asked.workflow, asked.rejects_if_busy) == ("w", True)
    assert "options" not in asked.fields


@pytest.mark.parametrize(
    ("fields", "needs"),
    [
        ({"tools": [TOOL]}, {Capability.TOOLS}),
        ({"tools": []}, set()),
        ({"tools": None}, set()),
        ({"tools": [{"type": "web_search"}]}, set()),
        ({"text": {"format": {"type": "text"}}}, set()),
        ({"text": {"verbosity": "low"}}, set()),
        ({"text": None}, set()),
        ({"text": {"format": {"type": "json_object"}}}, {Capability.STRUCTURED_OUTPUT}),
        ({"text": {"format": {"type": "json_schema"}}}, {Capability.STRUCTURED_OUTPUT}),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": PIXEL}]}]},
            {Capability.VISION},
        ),
    ],
)
def test_capabilities_are_those_that_are_asked_for(fields: Any, needs: set[Capability]) -> None:
    assert read(**fields).needs == needs


def test_tools_of_others_are_left_out_and_a_clients_own_never() -> None:
    kept = [
        TOOL,
        {"type": "custom", "name": "c"},
        {"type": "namespace", "name": "n"},
        {"name": "x"},
    ]
    asked = read(tools=[{"type": "web_search", "x": {}}, *kept, {"type": "later"}])
    assert json.loads(bytes(asked.fields["tools"])) == kept
    assert "tools" not in read(tools=[{"type": "image_generation"}]).fields
    wrongs: list[object] = [{}, "a", [1], [{"type": 5}]]
    for wrong in wrongs:
        with pytest.raises(InvalidRequest, match="`tools`"):
            read(tools=wrong)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": [USER, {"type": "item_reference", "id": "x"}]}, "input.1"),
        ({"input": [{"id": "x"}]}, "input.0"),
        ({"input": [{"id": "x", "type": None}]}, "input.0"),
    ],
)
def test_references_are_refused_by_their_own_code(fields: Any, param: str) -> None:
    with pytest.raises(StateUnavailable, match="`store: false`") as refused:
        read(**fields)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": {}}, "input"),
        ({"input": [5]}, "input"),
        ({"instructions": 5}, "instructions"),
        ({"text": "plain"}, "text"),
        ({"text": {"format": "json"}}, "text"),
        ({"stream": 1}, "stream"),
        ({"max_output_tokens": 1.5}, "max_output_tokens"),
    ],
)
def test_what_is_wrong_is_refused_by_name(fields: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**fields)
    assert refused.value.param == param


def test_media_come_from_listed_hosts_only_wherever_they_stand() -> None:
    part = {"type": "input_image", "image_url": "http://pictures/x.png"}
    for item in (
        {"role": "user", "content": [part]},
        {"type": "function_call_output", "call_id": "c", "output": [part]},
        {"role": "user", "content": [{"type": "input_file", "file_url": "http://pictures/x"}]},
    ):
        with pytest.raises(InvalidRequest, match="media_hosts"):
            read(input=[item])
        read(input=[item], hosts=frozenset({"pictures"}))
    asked = read(input=[USER, {"role": "user", "content": [{"image_url": PIXEL}] * 2}])
    assert asked.images == 2
    assert asked.media.by_message[1].count == 2


def test_prompt_is_weighed_with_instructions_and_tools_and_without_images() -> None:
    plain = read().prompt_bytes
    assert read(instructions="x" * 1000).prompt_bytes >= plain + 1000
    assert read(tools=[{**TOOL, "description": "y" * 1000}]).prompt_bytes >= plain + 1000
    image = {"role": "user", "content": [{"image_url": "data:image/png;base64," + "A" * 4000}]}
    assert read(input=[image]).prompt_bytes < 200


def test_text_is_one_user_message() -> None:
    assert chain(input="hi").links == chain(input=[USER]).links


def test_chain_grows_with_the_items_and_breaks_with_what_stands_before_them() -> None:
    items = [USER, {"type": "reasoning", "summary": []}, {"type": "function_call", "name": "f"}]
    short = chain(input=items[:1], instructions="a", reasoning={"effort": "low"})
    long = chain(input=items, instructions="a", reasoning={"effort": "low"})
    assert long.links[:3] == short.links
    assert (short.earlier, len(long.links)) == (0, 5)
    # What the model said last begins behind the instructions and the user's words.
    assert long.earlier == len(short.links)
    assert long.has_system
    for other in (
        {"instructions": "b", "reasoning": {"effort": "low"}},
        {"instructions": "a", "reasoning": {"effort": "high"}},
        {"instructions": "a", "reasoning": {"effort": "low"}, "tools": [TOOL]},
    ):
        changed = chain(input=items, **other)
        assert not set(changed.links[2:]) & set(long.links)
    assert chain(input=items).opening == chain(input=items, instructions="z").opening != 0


def test_family_is_that_of_instructions_and_tools() -> None:
    first = family(instructions="You are an agent.", tools=[TOOL])
    assert first
    assert family(instructions="You are an agent.", tools=[TOOL], input="b") == first
    assert family(instructions="Another.", tools=[TOOL]) != first
    assert family() == ""


def family(**body: Any) -> str:
    request = read(**body)
    return PromptFamilies().find(request.fields, request.messages)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
NAMES = st.sampled_from([
    "input", "instructions", "tools", "text", "reasoning", "store", "background", "prompt",
    "conversation", "metadata", "stream", "max_output_tokens", "options", "prompt_cache_key",
])  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(NAMES, JSON, max_size=6), st.lists(st.dictionaries(NAMES, JSON), max_size=3))
def test_anything_is_read_or_refused(fields: dict[str, Any], items: list[Any]) -> None:
    body = {"model": "m", "input": items, **fields}
    status = 200
    try:
        read_responses(read_fields(json.dumps(body).encode()), NO_HOSTS)
    except Error as refused:
        status = refused.status
    assert status in (200, 400)


def test_tools_nested_too_deep_are_refused_by_name() -> None:
    tools = Raw(b'[{"type":"function","x":' + b"[" * 970 + b"]" * 970 + b"}]")
    with pytest.raises(InvalidRequest, match="nested") as refused:
        read_responses({"input": Raw(b'"hi"'), "tools": tools}, frozenset())
    assert refused.value.param == "tools"


def test_namespaces_are_left_out_for_gpt_oss_alone() -> None:
    tools = [{"type": "function", "name": "f"}, {"type": "namespace", "name": "n"}]
    fields = {"tools": Raw(json.dumps(tools).encode())}
    drop_hosted_tools(fields)
    assert len(json.loads(bytes(fields["tools"]))) == 2
    drop_namespaces(fields)
    assert json.loads(bytes(fields["tools"])) == tools[:1]
