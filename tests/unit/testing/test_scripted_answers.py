"""What the scripted engine says, and what it counts."""

import msgspec
import pytest

from penstock.testing.scripted_engine.chat_request import read_chat
from penstock.testing.scripted_engine.engine_request import (
    EngineRequest,
    RequestRefusedError,
    Served,
)
from penstock.testing.scripted_engine.script import (
    PLAIN,
    Script,
    ScriptError,
    read_control,
    read_script,
)
from penstock.testing.scripted_engine.scripted_answers import compose, minimal_instance

SERVED = Served("m", 100)
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city", "days"],
        },
    },
}


def _request(text: str = "hi", **fields: object) -> EngineRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **fields}
    return read_chat(msgspec.json.encode(body), SERVED)


def test_the_same_prompt_gets_the_same_words_and_another_gets_others() -> None:
    first = compose(_request("one"), PLAIN, 0)
    assert first == compose(_request("one"), PLAIN, 0)
    assert first != compose(_request("two"), PLAIN, 0)
    assert first != compose(_request("one", n=2), PLAIN, 1)


def test_tokens_is_the_exact_count() -> None:
    answer = compose(_request(), Script(tokens=7), 0)
    assert (answer.completion_tokens, answer.finish_reason) == (7, "stop")


def test_max_tokens_cuts_the_answer() -> None:
    answer = compose(_request(max_tokens=3), Script(tokens=7), 0)
    assert (answer.completion_tokens, answer.finish_reason) == (3, "length")
    assert len(answer.pieces) == 3


def test_reasoning_counts_against_max_tokens() -> None:
    answer = compose(_request(max_tokens=2), Script(reasoning="a b c", text="d"), 0)
    assert (answer.reasoning, answer.pieces) == (["a", " b"], [])
    assert (answer.completion_tokens, answer.finish_reason) == (2, "length")


def test_ignore_eos_runs_to_the_limit() -> None:
    answer = compose(_request(max_tokens=60, ignore_eos=True), PLAIN, 0)
    assert (answer.completion_tokens, answer.finish_reason) == (60, "length")


def test_text_is_given_exactly() -> None:
    text = "  two  spaces, a tab\t and\nan end \n"
    assert "".join(compose(_request(), Script(text=text), 0).pieces) == text


def test_a_stop_word_ends_the_answer_before_it() -> None:
    answer = compose(_request(stop=["gamma", "delta"]), Script(text="alpha beta gamma delta"), 0)
    assert "".join(answer.pieces) == "alpha beta "
    assert (answer.finish_reason, answer.stop_reason) == ("stop", "gamma")


@pytest.mark.parametrize(
    ("choice", "text", "reason"),
    [
        ("required", "hi", "tool_calls"),
        ({"type": "function", "function": {"name": "weather"}}, "hi", "stop"),
        ("auto", "please CALL weather now", "tool_calls"),
    ],
)
def test_a_tool_is_called_with_its_required_arguments(
    choice: object, text: str, reason: str
) -> None:
    answer = compose(_request(text, tools=[WEATHER], tool_choice=choice), PLAIN, 0)
    assert [call.name for call in answer.tool_calls] == ["weather"]
    assert msgspec.json.decode("".join(answer.tool_calls[0].pieces)) == {"city": "water", "days": 0}
    assert answer.finish_reason == reason


def test_no_tool_is_called_on_auto_or_none() -> None:
    assert not compose(_request(tools=[WEATHER]), PLAIN, 0).tool_calls
    refused = _request("CALL weather", tools=[WEATHER], tool_choice="none")
    assert not compose(refused, PLAIN, 0).tool_calls


def test_a_schema_is_answered_with_what_it_requires() -> None:
    schema = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "share": {"type": "number"},
            "is_open": {"type": "boolean"},
            "kind": {"enum": ["x", "y"]},
            "part": {"$ref": "#/$defs/part"},
            "list": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
            "ignored": {"type": "string"},
        },
        "required": ["name", "share", "is_open", "kind", "part", "list"],
        "$defs": {"part": {"type": "object", "properties": {"n": {"const": 4}}, "required": ["n"]}},
    }
    expected = {
        "name": "water",
        "share": 0.5,
        "is_open": True,
        "kind": "x",
        "part": {"n": 4},
        "list": [0, 0],
    }
    assert minimal_instance(schema) == expected
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
    answer = compose(_request(response_format=wanted), PLAIN, 0)
    assert msgspec.json.decode("".join(answer.pieces)) == expected


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b'{"model":', 400, "body.0"),
        (b'{"model":"m"}', 400, "body.messages"),
        (b'{"model":"m","messages":[]}', 400, None),
        (b'{"model":"x","messages":[{"role":"user","content":"a"}]}', 404, "model"),
        (b'{"messages":[{"role":"user","content":"a"}],"max_tokens":101}', 400, "max_tokens"),
        (b'{"messages":[{"role":"user","content":"a"}],"max_tokens":0}', 400, "max_tokens"),
        (b'{"messages":[{"role":"user","content":"a"}],"n":1000}', 400, "n"),
        (
            b'{"messages":[{"role":"user","content":"a"}],"stream_options":{}}',
            400,
            "stream_options",
        ),
        (b'{"messages":[{"role":"user","content":"' + b"a" * 500 + b'"}]}', 400, "input_tokens"),
    ],
)
def test_a_wrong_request_is_refused_as_vllm_does(
    body: bytes, status: int, param: str | None
) -> None:
    with pytest.raises(RequestRefusedError) as refusal:
        read_chat(body, SERVED)
    assert (refusal.value.status, refusal.value.param) == (status, param)


def test_text_parts_are_read_like_text() -> None:
    parts = [{"type": "text", "text": "hello "}, {"type": "text", "text": "there"}]
    body = {"messages": [{"role": "user", "content": parts}]}
    request = read_chat(msgspec.json.encode(body), SERVED)
    assert request.last_user_text == "hello there"


def test_a_script_line_in_the_prompt_overrides_the_default() -> None:
    prompt = 'hello\n@script {"tokens": 3, "stall_after": [2, null]}\nmore'
    script = read_script({"tokens": 9, "interval": 0.5}, prompt)
    assert (script.tokens, script.interval, script.stall_after) == (3, 0.5, (2, None))
    assert read_script({}, "hello") == PLAIN


@pytest.mark.parametrize("line", ['@script {"token": 3}', "@script {", '@script {"tokens": "3"}'])
def test_an_unknown_directive_is_refused(line: str) -> None:
    with pytest.raises(ScriptError):
        read_script({}, line)


def test_control_keys_are_apart_from_the_script() -> None:
    control, defaults = read_control(b'{"healthy": false, "times": 2, "status": 503}')
    assert (control.healthy, control.times, defaults) == (False, 2, {"status": 503})
    with pytest.raises(ScriptError):
        read_control(b'{"helthy": false}')
