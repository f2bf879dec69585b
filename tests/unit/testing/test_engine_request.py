"""What the scripted engine makes of requests by its other APIs, and which it refuses."""

import base64
import json
import math
import struct
from collections.abc import Callable
from typing import Any

import pytest

from penstock.testing.scripted_engine.answer_shape import AnswerHead
from penstock.testing.scripted_engine.answer_usage import AnswerUsage
from penstock.testing.scripted_engine.chat_request import read_chat, read_completion
from penstock.testing.scripted_engine.embeddings_request import read_embeddings
from penstock.testing.scripted_engine.embeddings_shapes import EmbeddingsShape
from penstock.testing.scripted_engine.engine_request import (
    EngineRequest,
    RequestRefusedError,
    Served,
)
from penstock.testing.scripted_engine.messages_request import read_messages
from penstock.testing.scripted_engine.responses_request import read_responses
from penstock.testing.scripted_engine.script import PLAIN
from penstock.testing.scripted_engine.scripted_answers import compose

SERVED = Served("m", 200)
CHAT_TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}}
ANTHROPIC_TOOL = {"name": "look", "input_schema": {"type": "object"}}
ASK = 'CALL look {"at": "the gate"}'
SCHEMA = {"type": "object", "properties": {"n": {"const": 4}}, "required": ["n"]}
Reader = Callable[[bytes, Served], EngineRequest]


def _read(reader: Reader, **fields: object) -> EngineRequest:
    return reader(json.dumps({"model": "m", **fields}).encode(), SERVED)


ASKING = [
    _read(read_chat, messages=[{"role": "user", "content": ASK}], tools=[CHAT_TOOL]),
    _read(read_responses, input=ASK, tools=[TOOL]),
    _read(
        read_messages,
        messages=[{"role": "user", "content": [{"type": "text", "text": ASK}]}],
        tools=[ANTHROPIC_TOOL],
        max_tokens=99,
    ),
]
RETURNING = [
    _read(
        read_chat,
        messages=[{"role": "user", "content": ASK}, {"role": "tool", "content": "it is shut"}],
        tools=[CHAT_TOOL],
    ),
    _read(
        read_responses,
        input=[
            {"role": "user", "content": ASK},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "it is shut"},
        ],
        tools=[TOOL],
    ),
    _read(
        read_messages,
        messages=[
            {"role": "user", "content": ASK},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look"}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "c", "content": "it is shut"}],
            },
        ],
        tools=[ANTHROPIC_TOOL],
        max_tokens=99,
    ),
]
STRUCTURED = [
    _read(read_responses, input="a", text={"format": {"type": "json_schema", "schema": SCHEMA}}),
    _read(
        read_messages,
        messages=[{"role": "user", "content": "a"}],
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}},
        max_tokens=99,
    ),
]


@pytest.mark.parametrize("request_", ASKING)
def test_a_call_may_name_its_arguments_in_every_api(request_: EngineRequest) -> None:
    (call,) = compose(request_, PLAIN, 0).tool_calls
    assert (call.name, json.loads("".join(call.pieces))) == ("look", {"at": "the gate"})


@pytest.mark.parametrize("request_", RETURNING)
def test_a_result_that_comes_back_ends_the_loop_with_words(request_: EngineRequest) -> None:
    answer = compose(request_, PLAIN, 0)
    assert not answer.tool_calls
    assert answer.pieces


@pytest.mark.parametrize("request_", STRUCTURED)
def test_a_schema_is_kept_to_in_every_api(request_: EngineRequest) -> None:
    assert json.loads("".join(compose(request_, PLAIN, 0).pieces)) == {"n": 4}


@pytest.mark.parametrize(
    ("reader", "fields", "status", "param"),
    [
        (read_responses, {}, 400, "body.input"),
        (read_responses, {"input": "a", "model": "x"}, 404, "model"),
        (read_responses, {"input": "a", "previous_response_id": "r"}, 404, "response_id"),
        (read_responses, {"input": "a", "background": True}, 400, "background"),
        (read_responses, {"input": "a", "max_output_tokens": 201}, 400, "max_output_tokens"),
        (read_responses, {"input": "a" * 900}, 400, "input_tokens"),
        (read_responses, {"input": "a", "cache_salt": "a/b"}, 400, "cache_salt"),
        (read_responses, {"input": "a", "tools": [{"type": "odd"}]}, 400, "body.tools.0.type"),
        (read_responses, {"input": [{"type": "item_reference", "id": "m"}]}, 400, "input"),
        (
            read_responses,
            {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]},
            400,
            "input",
        ),
        (read_messages, {"messages": []}, 400, "body.max_tokens"),
        (read_messages, {"messages": [], "max_tokens": 9}, 400, None),
        (read_messages, {"messages": [], "max_tokens": "9"}, 400, "body.max_tokens"),
        (read_embeddings, {}, 400, "body.input"),
        (read_embeddings, {"input": []}, 400, None),
        (read_embeddings, {"input": ["a", ""]}, 400, None),
        (read_embeddings, {"input": "a", "dimensions": 8}, 400, None),
        (read_embeddings, {"input": ["a", "a" * 900]}, 400, "input_tokens"),
        (read_completion, {"prompt": ""}, 400, "prompt"),
        (read_completion, {}, 400, "prompt"),
    ],
)
def test_a_wrong_request_is_refused_as_vllm_does_in_every_api(
    reader: Reader, fields: dict[str, object], status: int, param: str | None
) -> None:
    with pytest.raises(RequestRefusedError) as refusal:
        _read(reader, **fields)
    assert (refusal.value.status, refusal.value.param) == (status, param)


@pytest.mark.parametrize(
    ("prompt", "tokens"), [("four" * 3, 3), (["four", "four"], 2), ([7, 8, 9], 3), ([[7], [8]], 2)]
)
def test_prompts_are_counted_however_they_are_given(prompt: object, tokens: int) -> None:
    assert _read(read_completion, prompt=prompt).prompt_tokens == tokens
    assert _read(read_embeddings, input=prompt).prompt_tokens == tokens


def _vectors(**fields: object) -> list[Any]:
    request = _read(read_embeddings, **fields)
    shape = EmbeddingsShape(
        request, AnswerHead("e", 1, "m"), AnswerUsage(prompt_tokens=1), lambda: ""
    )
    return [row["embedding"] for row in json.loads(shape.whole([]))["data"]]


def test_a_text_has_one_vector_of_length_one_in_both_formats() -> None:
    one, two, again = _vectors(input=["a", "b", "a"])
    assert one == again != two
    assert math.isclose(math.hypot(*one), 1.0)
    (packed,) = _vectors(input="a", encoding_format="base64")
    unpacked = struct.unpack(f"<{len(one)}f", base64.b64decode(packed))
    assert unpacked == pytest.approx(one, abs=1e-6)
