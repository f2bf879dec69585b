"""vLLM's body: the caller's fields as they came, less what is reserved, plus what is ours, once."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from tests.unit.engine.engine_line import make_request

from penstock.engine.dialects import request_body as written
from penstock.engine.dialects.engine_calls import CALLS
from penstock.engine.dialects.vllm import request_body
from penstock.records.request import Api, InferenceRequest

RESERVED = ["model", "stream_options", "priority", "cache_salt", "session_id"]
PRIVATE = ["kv_transfer_params", "ec_transfer_params", "vllm_xargs", "request_id"]
OURS = ["prompt_cache_key", "service_tier", "store", "metadata", "user", "options"]


def sent(request: InferenceRequest) -> tuple[bytes, dict[str, Any]]:
    body = b"".join(request_body(request, Raw(b'"served"')))
    pairs: list[tuple[str, Any]] = json.loads(body, object_pairs_hook=list)
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), "no name goes up twice"
    return body, json.loads(body)


def request_of(fields: dict[str, object], **facts: object) -> InferenceRequest:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    return make_request(body=json.dumps(body).encode(), **facts)  # type: ignore[arg-type]


def names_of(request: InferenceRequest) -> Iterable[str]:
    return sent(request)[1].keys()


@pytest.mark.parametrize("name", RESERVED + PRIVATE + OURS)
def test_reserved_name_of_the_caller_never_goes_up(name: str) -> None:
    _, body = sent(request_of({name: "the caller's"}))
    assert body.get(name) != "the caller's"


def test_model_and_salt_are_ours() -> None:
    _, body = sent(request_of({"model": "theirs", "cache_salt": "theirs"}))
    assert body["model"] == "served"
    assert body["cache_salt"] == "abcd"


def test_stream_always_asks_for_usage_in_every_chunk() -> None:
    fields: dict[str, object] = {"stream": True, "stream_options": {"include_usage": False}}
    _, body = sent(request_of(fields, is_stream=True))
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


def test_request_that_is_no_stream_has_no_stream_options() -> None:
    assert "stream_options" not in names_of(request_of({"stream_options": None}))


def test_messages_and_tools_go_up_byte_for_byte() -> None:
    messages = b'[ {"role" : "user", "content":"h\\u00e9 \\/ "} ]'
    tools = b'[{"type":"function","function":{"name":"f","parameters":{"a":1.0e0}}} ]'
    raw = b'{"tools":%s,"messages":%s,"temperature":0.70}' % (tools, messages)
    body, _ = sent(make_request(body=raw))
    assert messages in body
    assert tools in body
    assert b'"temperature":0.70' in body


def test_session_goes_up_by_its_key_and_hidden() -> None:
    """The key is scoped by the account; that two accounts differ is shown where it is made."""
    request = request_of({}, session="ses_1", session_key=2**64 - 1)
    assert sent(request)[1]["session_id"] == "f" * 16
    assert "session_id" not in names_of(request_of({}, session_key=5))


@given(st.integers(0, 2**64 - 1))
def test_a_session_s_key_has_sixteen_digits(key: int) -> None:
    assert sent(request_of({}, session="s", session_key=key))[1]["session_id"] == f"{key:016x}"


def test_names_are_kept_up_to_a_bound_and_no_long_ones() -> None:
    for number in range(3000):
        request_body(request_of({f"n{number}": 1, "x" * 100: 1}), Raw(b'"served"'))
    assert 0 < len(written._keys) <= 1000
    assert max(map(len, written._keys)) <= 64


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*RESERVED, *PRIVATE, *OURS, "n", "stop", "tools", "seed"]) | st.text(),
        st.none() | st.booleans() | st.integers(0, 9) | st.text(max_size=5),
        max_size=8,
    )
)
def test_everything_else_goes_up_as_it_came(fields: dict[str, object]) -> None:
    fields.pop("messages", None)
    fields["max_tokens"] = 7
    _, body = sent(request_of(fields))
    dropped = {*RESERVED, *PRIVATE, *OURS}
    expected = {name: value for name, value in fields.items() if name not in dropped}
    for name in ("model", "cache_salt", "messages"):
        body.pop(name)
    assert body == expected


@pytest.mark.parametrize("fields", [{}, {"max_tokens": None}, {"max_completion_tokens": None}])
def test_answer_without_a_limit_gets_the_catalogues(fields: dict[str, object]) -> None:
    request = request_of(fields)
    assert sent(request)[1]["max_tokens"] == request.model.default_output_tokens


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_limit_of_the_caller_goes_up_alone(name: str) -> None:
    _, body = sent(request_of({name: 5}))
    assert [body.get(n) for n in ("max_tokens", "max_completion_tokens")].count(5) == 1
    assert ("max_tokens" in body) != ("max_completion_tokens" in body)


def test_path_is_openais() -> None:
    assert CALLS[Api.CHAT].path == "/v1/chat/completions"


def test_responses_are_stateless_and_carry_our_id() -> None:
    body = json.dumps({"input": "hi", "store": True, "request_id": "theirs"}).encode()
    _, got = sent(make_request(body=body, api=Api.RESPONSES))
    assert got["store"] is False
    assert got["request_id"].startswith("resp_")
    assert got["request_id"] != "theirs"
    assert got["max_output_tokens"] > 0
    assert "max_tokens" not in got


def test_streams_of_other_apis_are_asked_for_no_usage() -> None:
    for api, name in ((Api.RESPONSES, "input"), (Api.MESSAGES, "messages")):
        body = json.dumps({name: [], "stream": True, "stream_options": {}}).encode()
        _, got = sent(make_request(body=body, api=api, is_stream=True))
        assert "stream_options" not in got
