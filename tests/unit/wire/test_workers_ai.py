"""Workers AI's `/ai/run`: input in its forms, answers in envelope and native shape."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from penstock.errors import EngineFailed, Error, InvalidRequest, LoraUnsupported
from penstock.records.model import Capability, Family, Model, ModelId, Recipe
from penstock.wire.apis.workers_ai import chat_fields, envelope, native_json_result, native_result
from penstock.wire.json_body import read_fields, write_fields


def model(family: Family = Family.OPENAI, *capabilities: Capability) -> Model:
    return Model(
        id=ModelId("@cf/x/y"),
        family=family,
        context_tokens=1000,
        recipe=Recipe(command=("x",)),
        capabilities=frozenset(capabilities),
    )


OPENAI, NATIVE = model(), model(Family.NATIVE)
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def chat(body: dict[str, object], of: Model = OPENAI) -> Any:
    return json.loads(write_fields(chat_fields(read_fields(json.dumps(body).encode()), of)))


def completion(message: Mapping[str, object], **more: object) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return json.dumps({"id": "x", "choices": [choice], "usage": USAGE, **more}).encode()


@pytest.mark.parametrize("of", [OPENAI, NATIVE])
def test_prompt_becomes_one_user_message(of: Model) -> None:
    fields = chat({"prompt": 'say "é"\n', "temperature": 0.5}, of)
    assert fields["messages"] == [{"role": "user", "content": 'say "é"\n'}]
    assert fields["temperature"] == 0.5
    assert "prompt" not in fields


@pytest.mark.parametrize("of", [OPENAI, NATIVE])
def test_messages_go_on_untouched(of: Model) -> None:
    raw = b'[ {"role":"user","content":"\\u0068i"} ]'
    fields = chat_fields(read_fields(b'{"messages": %s, "prompt": null}' % raw), of)
    assert bytes(fields["messages"]) == raw
    assert "prompt" not in fields


def test_null_messages_beside_a_prompt_are_no_messages() -> None:
    assert chat({"prompt": "a", "messages": None})["messages"][0]["content"] == "a"


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"temperature": 1},
        {"prompt": None},
        {"messages": None},
        {"prompt": ""},
        {"prompt": 5},
        {"prompt": ["a"]},
        {"prompt": "a", "messages": [{"role": "user", "content": "b"}]},
        {"prompt": "a", "raw": True},
        {"prompt": "a", "raw": "true"},
        {"prompt": "a", "image": [1, 2]},
        {"requests": [{"prompt": "a"}]},
        {"request_id": "0190"},
    ],
)
def test_input_that_is_neither_prompt_nor_messages_is_refused(body: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        chat(body)


def test_refusal_of_missing_input_reads_like_workers_ais_own() -> None:
    with pytest.raises(InvalidRequest, match="oneOf at '/' not met"):
        chat({})


def test_adapter_is_refused_by_a_model_that_takes_none() -> None:
    with pytest.raises(LoraUnsupported):
        chat({"prompt": "a", "lora": "mine"})
    assert "lora" not in chat({"prompt": "a", "lora": None})
    chat({"prompt": "a", "lora": "mine"}, model(Family.OPENAI, Capability.LORA))


def test_native_models_answer_256_tokens_unless_told_otherwise() -> None:
    assert chat({"prompt": "a"}, NATIVE)["max_tokens"] == 256
    assert chat({"prompt": "a", "max_tokens": None}, NATIVE)["max_tokens"] == 256
    assert chat({"prompt": "a", "max_tokens": 7}, NATIVE)["max_tokens"] == 7
    assert "max_tokens" not in chat({"prompt": "a"}, OPENAI)


def test_flat_tools_of_native_models_are_wrapped_and_wrapped_ones_left() -> None:
    flat = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    wrapped = {"type": "function", "function": {"name": "g"}}
    fields = chat({"prompt": "a", "tools": [flat, wrapped]}, NATIVE)
    assert fields["tools"] == [{"type": "function", "function": flat}, wrapped]


@pytest.mark.parametrize("tools", [[1], ["f"], [None], "f", {"name": "f"}])
def test_native_tools_of_another_kind_are_refused_with_param(tools: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        chat({"prompt": "a", "tools": tools}, NATIVE)
    assert refused.value.param == "tools"


def test_functions_with_code_are_refused_for_native_models() -> None:
    with pytest.raises(InvalidRequest) as refused:
        chat({"prompt": "a", "functions": [{"name": "f", "code": "x"}]}, NATIVE)
    assert refused.value.param == "functions"


@pytest.mark.parametrize("levels", [900, 984])
def test_deep_tools_are_refused_and_no_crash(levels: int) -> None:
    deep = b"[" * levels + b"]" * levels
    for body in (b'{"prompt":"a","tools":[%s]}', b'{"prompt":%s}', b'{"prompt":"a","raw":%s}'):
        with pytest.raises(Error):
            chat_fields(read_fields(body % deep), NATIVE)


def test_envelope_has_the_four_names() -> None:
    assert json.loads(envelope(b'{"a":1}')) == {
        "result": {"a": 1},
        "success": True,
        "errors": [],
        "messages": [],
    }


def test_native_answer_is_text_and_usage() -> None:
    result = json.loads(native_result(completion({"content": "hé"})))
    assert result == {"response": "hé", "usage": USAGE}


def test_native_answer_without_usage_has_none() -> None:
    for usage in (None, msgspec.UNSET):
        body = json.loads(completion({"content": "a"}))
        del body["usage"]
        if usage is None:
            body["usage"] = None
        assert json.loads(native_result(json.dumps(body).encode())) == {"response": "a"}


def tool_call(arguments: object) -> dict[str, object]:
    return {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}


def test_native_tool_calls_are_flat_and_their_arguments_objects() -> None:
    message = {"content": None, "tool_calls": [tool_call('{"a": [1]}'), tool_call(None)]}
    result = json.loads(native_result(completion(message)))
    assert result["response"] is None
    assert result["tool_calls"] == [
        {"name": "f", "arguments": {"a": [1]}},
        {"name": "f", "arguments": {}},
    ]


def test_native_arguments_that_are_no_json_stay_text() -> None:
    for arguments in ('{"a": ', "[" * 5000, "not json"):
        message = {"content": "", "tool_calls": [tool_call(arguments)]}
        result = json.loads(native_result(completion(message)))
        assert result["tool_calls"][0]["arguments"] == arguments


def test_json_mode_answers_with_the_object_itself() -> None:
    result = json.loads(native_json_result(completion({"content": ' {"a": [1, 2.50]} '})))
    assert result == {"response": {"a": [1, 2.5]}, "usage": USAGE}


def test_json_mode_keeps_every_digit() -> None:
    number = "123456789012345678901234567890"
    answer = native_json_result(completion({"content": f'{{"a":{number},"b":1.10}}'}))
    assert f'{{"a":{number},"b":1.10}}'.encode() in answer


@pytest.mark.parametrize("content", ['{"a": ', "", "[" * 5000, "plain words"])
def test_json_mode_hands_on_what_was_cut_as_text(content: str) -> None:
    assert json.loads(native_json_result(completion({"content": content})))["response"] == content


def test_json_mode_keeps_tool_calls_and_null() -> None:
    message = {"content": None, "tool_calls": [tool_call('{"a":1}')]}
    result = json.loads(native_json_result(completion(message)))
    assert result["response"] is None
    assert result["tool_calls"] == [{"name": "f", "arguments": {"a": 1}}]


@pytest.mark.parametrize("shape", [native_result, native_json_result])
@pytest.mark.parametrize(
    "answer", [b"{}", b"[]", b'{"choices":[]}', b'{"choices":[{}]}', b'{"choices":1}', b"x", b""]
)
def test_answer_that_is_no_completion_is_the_engines_failure(shape: Any, answer: bytes) -> None:
    with pytest.raises(EngineFailed):
        shape(answer)
