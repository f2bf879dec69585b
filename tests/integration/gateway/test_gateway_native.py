"""`/ai/run` of native-family models: their input forms, their answers, their streams."""

import json
from typing import Any

import pytest
from tests.integration.cells.gateway_answers import check_envelope
from tests.integration.cells.gateway_cell import CHAT, NATIVE, Cell, events_of, prompt

from penstock.testing import ScriptedEngine

_FLAT = [{"name": "look", "description": "d", "parameters": {"type": "object"}}]
_WRAPPED = [{"type": "function", "function": _FLAT[0]}]
_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def _result(cell: Cell, body: dict[str, Any]) -> dict[str, Any]:
    answer = cell.run_model(NATIVE, body)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


def _sent(engine: ScriptedEngine) -> dict[str, Any]:
    last = engine.state().last_request
    assert last is not None
    body: dict[str, Any] = json.loads(last["body"])
    return body


def test_prompt_and_messages_say_the_same(cell: Cell, engine: ScriptedEngine) -> None:
    first = _result(cell, {"prompt": "hello"})
    sent = _sent(engine)
    second = _result(cell, {"messages": [{"role": "user", "content": "hello"}]})
    assert first["response"] == second["response"]
    assert sent["messages"] == _sent(engine)["messages"]


def test_the_answer_is_text_and_usage(cell: Cell) -> None:
    result = _result(cell, {"messages": prompt({"text": "so be it", "tokens": 4})})
    assert result.keys() == {"response", "usage"}
    assert result["response"] == "so be it"
    usage = result["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


def test_max_tokens_is_256_unless_it_is_said(cell: Cell, engine: ScriptedEngine) -> None:
    _result(cell, {"prompt": "x"})
    assert _sent(engine)["max_tokens"] == 256
    _result(cell, {"prompt": "x", "max_tokens": None})
    assert _sent(engine)["max_tokens"] == 256
    _result(cell, {"prompt": "x", "max_tokens": 7})
    assert _sent(engine)["max_tokens"] == 7
    _result(cell, {"prompt": "x", "max_completion_tokens": 900})
    assert _sent(engine).get("max_tokens") is None
    # A model of the other family gets what its entry in the catalogue says.
    assert cell.run_model(CHAT, {"prompt": "x"}).status_code == 200
    assert _sent(engine)["max_tokens"] == 4096


def test_json_mode_answers_with_an_object(cell: Cell) -> None:
    for wanted in ({"type": "json_object"}, {"type": "json_schema", "json_schema": _SCHEMA}):
        result = _result(cell, {"messages": prompt(), "response_format": wanted})
        assert isinstance(result["response"], dict)
    assert result["response"] == {"a": 0}


def test_json_that_was_cut_short_is_handed_on_as_text(cell: Cell) -> None:
    wanted = {"type": "json_schema", "json_schema": _SCHEMA}
    body = {"messages": prompt(), "response_format": wanted, "max_tokens": 1}
    assert _result(cell, body)["response"] == '{"a"'


def test_a_number_is_only_a_number_in_json_mode(cell: Cell) -> None:
    body = {"messages": prompt({"text": "42"})}
    assert _result(cell, body)["response"] == "42"
    assert _result(cell, {**body, "response_format": {"type": "text"}})["response"] == "42"
    assert _result(cell, {**body, "response_format": None})["response"] == "42"
    wanted = {"response_format": {"type": "json_object"}}
    assert _result(cell, {**body, **wanted})["response"] == 42


@pytest.mark.parametrize("tools", [_FLAT, _WRAPPED])
def test_tools_flat_or_wrapped_give_flat_calls(
    cell: Cell, engine: ScriptedEngine, tools: list[Any]
) -> None:
    body = {"messages": prompt(), "tools": tools, "tool_choice": "required"}
    result = _result(cell, body)
    assert _sent(engine)["tools"] == _WRAPPED
    assert result["tool_calls"] == [{"name": "look", "arguments": {}}]
    assert not result["response"]


def test_a_stream_is_in_the_native_shape(cell: Cell) -> None:
    body = {"messages": prompt({"text": "a b c"}), "stream": True}
    answer = cell.run_model(NATIVE, body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = events_of(answer.text)
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    assert all(chunk.keys() <= {"response", "tool_calls", "usage"} for chunk in chunks)
    assert "".join(chunk["response"] for chunk in chunks) == "a b c"
    usages = [chunk["usage"] for chunk in chunks if "usage" in chunk]
    assert len(usages) == 1
    assert usages[0]["completion_tokens"] == 4


def test_tool_calls_in_a_stream_are_at_the_top_level(cell: Cell) -> None:
    body = {"messages": prompt(), "tools": _FLAT, "tool_choice": "required", "stream": True}
    chunks = [json.loads(event) for event in events_of(cell.run_model(NATIVE, body).text)[:-1]]
    calls = [call for chunk in chunks for call in chunk.get("tool_calls") or ()]
    assert calls[0]["function"]["name"] == "look"
    assert "".join(call["function"].get("arguments", "") for call in calls[1:]) == "{}"


def test_a_stream_in_pieces_is_the_same(cell: Cell) -> None:
    texts = set()
    for shape in ({"split": 1, "split_pause": 0.0}, {"glue": True}, {"split": 33}):
        body = {"messages": prompt({"text": "naïve 日本", **shape}), "stream": True}
        chunks = [json.loads(event) for event in events_of(cell.run_model(NATIVE, body).text)[:-1]]
        texts.add("".join(chunk["response"] for chunk in chunks))
    assert texts == {"naïve 日本"}


def test_functions_with_code_are_refused(cell: Cell) -> None:
    body = {"prompt": "x", "functions": [{"name": "f", "code": "1"}]}
    check_envelope(cell.run_model(NATIVE, body), 400, 5006)


def test_private_fields_of_the_family_do_not_reach_the_engine(
    cell: Cell, engine: ScriptedEngine
) -> None:
    _result(cell, {"prompt": "x", "raw": False, "lora": None, "top_k": 5, "seed": 3})
    sent = _sent(engine)
    assert sent.keys().isdisjoint({"raw", "lora", "prompt"})
    assert (sent["top_k"], sent["seed"]) == (5, 3)
