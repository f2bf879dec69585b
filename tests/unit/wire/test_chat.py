"""A chat request: what we read is strict and named when wrong, the rest goes on untouched."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import Error, InvalidRequest
from penstock.records.model import Capability
from penstock.wire.apis.chat import read_chat
from penstock.wire.apis.prompt_request import PromptRequest
from penstock.wire.json_body import DEPTH_MAX, read_fields, write_fields

MESSAGES = [{"role": "user", "content": "hi"}]
NO_HOSTS = frozenset[str]()


def read(**fields: object) -> PromptRequest:
    body = {"model": "m", "messages": MESSAGES, **fields}
    return read_chat(read_fields(json.dumps(body).encode()), NO_HOSTS)


def test_plain_request_has_the_defaults() -> None:
    chat = read()
    assert not chat.is_stream
    assert not chat.wants_usage
    assert not chat.wants_continuous_usage
    assert chat.choices == 1
    assert chat.cache_key == ""
    assert chat.rejects_if_busy is False
    assert chat.needs == frozenset()


def test_messages_are_required() -> None:
    with pytest.raises(InvalidRequest, match="`messages`") as refused:
        read_chat(read_fields(b'{"model": "m"}'), NO_HOSTS)
    assert refused.value.param == "messages"


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("stream", 1),
        ("stream", 0),
        ("stream", "true"),
        ("stream", "false"),
        ("stream", []),
        ("n", "2"),
        ("n", 0),
        ("n", -1),
        ("n", 129),
        ("n", 1.5),
        ("n", True),
        ("n", [1]),
        ("max_tokens", 1.5),
        ("max_tokens", "10"),
        ("max_tokens", -1),
        ("max_tokens", True),
        ("max_completion_tokens", 1.5),
        ("max_completion_tokens", "10"),
        ("max_completion_tokens", -5),
        ("prompt_cache_key", 5),
        ("options", {"rejectIfBusy": "true"}),
        ("options", {"rejectIfBusy": 1}),
        ("options", {"queueRequest": "yes"}),
        ("options", "rejectIfBusy"),
        ("tools", {"type": "function"}),
        ("tools", "none"),
        ("tools", 1),
        ("response_format", "json_object"),
        ("response_format", {}),
        ("response_format", []),
        ("response_format", {"type": 5}),
    ],
)
def test_wrong_kind_of_value_is_refused_with_its_name(name: str, wrong: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(**{name: wrong})
    assert refused.value.param == name


@pytest.mark.parametrize(
    "options",
    [
        {"include_usage": 1},
        {"include_usage": "true"},
        {"continuous_usage_stats": "x"},
        [],
        "include_usage",
    ],
)
def test_stream_options_are_strict(options: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(stream=True, stream_options=options)
    assert refused.value.param == "stream_options"


@pytest.mark.parametrize(
    "name",
    [
        "stream",
        "n",
        "max_tokens",
        "max_completion_tokens",
        "prompt_cache_key",
        "options",
        "tools",
        "response_format",
        "stream_options",
    ],
)
def test_null_means_the_default(name: str) -> None:
    chat = read(**{name: None})
    assert (chat.is_stream, chat.choices, chat.cache_key) == (False, 1, "")
    assert chat.needs == frozenset()


def test_what_is_asked_of_a_stream_is_read() -> None:
    chat = read(stream=True, n=3, stream_options={"include_usage": True})
    assert (chat.is_stream, chat.choices, chat.wants_usage) == (True, 3, True)
    assert not chat.wants_continuous_usage
    both = {"include_usage": True, "continuous_usage_stats": True, "include_obfuscation": False}
    assert read(stream=True, stream_options=both).wants_continuous_usage


@pytest.mark.parametrize("stream", [False, None])
def test_stream_options_without_a_stream_are_refused_as_the_engine_would(stream: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(stream=stream, stream_options={"include_usage": True})
    assert refused.value.param == "stream_options"


@pytest.mark.parametrize("choices", [1, 2, 128])
def test_n_from_1_to_128_is_taken(choices: int) -> None:
    assert read(n=choices).choices == choices


def test_options_are_ours_and_do_not_go_on() -> None:
    chat = read(options={"rejectIfBusy": True, "tags": ["a"]})
    assert chat.rejects_if_busy is True
    assert "options" not in chat.fields


def test_cache_key_is_read() -> None:
    assert read(prompt_cache_key="conversation-1").cache_key == "conversation-1"


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({"tools": [{"type": "function", "function": {"name": "f"}}]}, Capability.TOOLS),
        ({"tools": [{"type": "namespace", "name": "codex"}]}, Capability.TOOLS),
        ({"response_format": {"type": "json_object"}}, Capability.STRUCTURED_OUTPUT),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"type": "object"}}},
            Capability.STRUCTURED_OUTPUT,
        ),
    ],
)
def test_what_a_request_needs_of_the_model_is_named(
    fields: dict[str, object], needed: Capability
) -> None:
    assert read(**fields).needs == frozenset({needed})


def test_image_needs_vision_and_needs_add_up() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [{"role": "user", "content": [part]}]
    chat = read(messages=messages, tools=[{}], response_format={"type": "json_object"})
    assert chat.needs == {Capability.VISION, Capability.TOOLS, Capability.STRUCTURED_OUTPUT}


@pytest.mark.parametrize("fields", [{"tools": []}, {"response_format": {"type": "text"}}])
def test_empty_tools_and_text_format_need_nothing(fields: dict[str, object]) -> None:
    assert read(**fields).needs == frozenset()


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    "name",
    ["unknown", "tools", "tool_choice", "chat_template_kwargs", "metadata", "response_format"],
)
def test_depth_64_passes_and_65_is_refused_in_every_field(name: str) -> None:
    def value(body_depth: int) -> object:
        # The body itself is level 1.
        if name == "tools":
            return [nested(body_depth - 2)]
        if name == "response_format":
            return {"type": "json_object", "extra": nested(body_depth - 2)}
        return nested(body_depth - 1)

    read(**{name: value(DEPTH_MAX)})
    with pytest.raises(InvalidRequest, match="deep") as refused:
        read(**{name: value(DEPTH_MAX + 1)})
    assert refused.value.param == name


@pytest.mark.parametrize("name", ["stream", "n", "model", "max_tokens", "prompt_cache_key"])
def test_deep_value_where_a_plain_one_belongs_is_no_crash(name: str) -> None:
    deep = b'{"model":"m","messages":[{"role":"user","content":"x"}],"%s":%s}'
    for levels in (65, 900, 985):
        body = deep % (name.encode(), b"[" * levels + b"]" * levels)
        try:
            read_chat(read_fields(body), NO_HOSTS)
        except InvalidRequest:
            continue
        assert name == "model", "only the model is read elsewhere"


def test_fields_that_we_do_not_know_go_on_as_they_came() -> None:
    body = (
        b'{"model":"m","messages":[ {"role":"user","content":"h\\u00e9"} ],'
        b'"logit_bias":{"1": -1.50},"top_k":5,"guided":[ ],"tools":[ {"a" : 1} ]}'
    )
    written = write_fields(read_chat(read_fields(body), NO_HOSTS).fields)
    assert written == body


fields_like = st.dictionaries(
    st.sampled_from(
        [
            "messages",
            "stream",
            "n",
            "max_tokens",
            "tools",
            "response_format",
            "stream_options",
            "options",
            "prompt_cache_key",
            "x",
        ]
    ),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(0, 9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "json_schema", "role", "content", "rejectIfBusy", "x"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=6,
    ),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(fields_like)
def test_any_object_is_read_or_refused_and_nothing_else(body: dict[str, object]) -> None:
    body.setdefault("messages", MESSAGES)
    try:
        chat = read_chat(read_fields(json.dumps(body).encode()), NO_HOSTS)
    except Error:
        return
    body.pop("options", None)
    wanted = body.get("response_format")
    if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
        body.pop("response_format")
        chat.fields.pop("response_format")
    assert json.loads(write_fields(chat.fields)) == body
