"""Rule 5: but for ids and times, the caller's stream is what the engine sends for that body."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integration.cells.gateway_cell import CHAT, PAIR, SERVED, Cell, CellFactory, chat_body

from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_CALL_ID = re.compile(rb'"id":"chatcmpl-tool-[0-9a-f]+"')
_ID = re.compile(rb'"id":"chatcmpl-[^"]+"')
_CREATED = re.compile(rb'"created":\d+')
_WORDS = 'naïve "日本" 🌊 \\n ,"usage":{"x":1} data: [DONE]'
_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]

_BODIES: dict[str, dict[str, Any]] = {
    "plain": {},
    "usage": {"stream_options": {"include_usage": True}},
    "continuous": {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    "continuous alone": {"stream_options": {"continuous_usage_stats": True}},
    "usage off": {"stream_options": {"include_usage": False}},
    "no options": {"stream_options": None},
    "two": {"n": 2},
    "two with usage": {"n": 2, "stream_options": {"include_usage": True}},
    "two continuous": {
        "n": 2,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    },
    "tools": {"tools": _TOOLS, "tool_choice": "required"},
    "tools with usage": {
        "tools": _TOOLS,
        "tool_choice": "required",
        "stream_options": {"include_usage": True},
    },
    "cut short": {"max_tokens": 3},
    "stop word": {"stop": ["日本"]},
    "logprobs": {"logprobs": True, "top_logprobs": 2},
}
_SHAPES: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "byte by byte": {"split": 1, "split_pause": 0.0},
    "in sevens": {"split": 7, "split_pause": 0.0},
    "glued": {"glue": True},
    "reasoning": {"reasoning": "well , then"},
    "no usage": {"no_usage": True},
    "odd usage": {"lie_usage": {"prompt_tokens_details": {"cached_tokens": 3, "more": {}}}},
}


@pytest.fixture(scope="module")
def pair(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    """A gateway whose one replica has never been asked before the first test."""
    with cells.open() as cell:
        yield cell, cell.set_up(CHAT)


def _plain(stream: bytes) -> bytes:
    """Without ids and times."""
    stream = _CALL_ID.sub(b'"id":"call"', stream)
    return _CREATED.sub(b'"created":0', _ID.sub(b'"id":"chat"', stream))


def _direct(cell: Cell, engine: ScriptedEngine, body: dict[str, Any]) -> bytes:
    answer = cell.client.post(engine.url + _V1, json={**body, "model": SERVED})
    assert answer.status_code == 200, answer.text
    return _plain(answer.content)


def _through(cell: Cell, body: dict[str, Any]) -> bytes:
    answer = cell.chat(body)
    assert answer.status_code == 200, answer.text
    return _plain(answer.content)


def _compare(cell: Cell, engine: ScriptedEngine, body: dict[str, Any]) -> None:
    assert _through(cell, body) == _direct(cell, engine, body)


@pytest.mark.parametrize("name", ["two", "plain", "tools", "two with usage"])
def test_the_first_stream_of_a_replica(pair: tuple[Cell, ScriptedEngine], name: str) -> None:
    """The engine's fingerprint is not known yet, and must still be where the engine puts it."""
    cell, engine = pair
    replica = cell.enroll(engine.url, PAIR)
    cell.wait_for_replicas(PAIR, 1)
    body = chat_body(PAIR, {"text": _WORDS}, stream=True, **{"n": 1, **_BODIES[name]})
    assert _through(cell, body) == _direct(cell, engine, body)
    # By now the cached tokens differ from the first time, on both ways alike.
    assert _through(cell, body) == _direct(cell, engine, body)
    cell.withdraw(replica)
    cell.wait_for_replicas(PAIR, 0)


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("name", _BODIES)
def test_streams_are_equal(pair: tuple[Cell, ScriptedEngine], name: str, shape: str) -> None:
    script = {"text": _WORDS, **_SHAPES[shape]}
    _compare(*pair, chat_body(script=script, stream=True, **_BODIES[name]))


@pytest.mark.parametrize("name", ["plain", "usage", "two continuous"])
def test_streams_are_equal_wherever_they_are_split(
    pair: tuple[Cell, ScriptedEngine], name: str
) -> None:
    cell, engine = pair

    def body(at: int) -> dict[str, Any]:
        # Padded, so that the prompt has the same length whatever the number.
        script = json.dumps({"text": "a é", "split_at": [99999], "split_pause": 0.0005})
        content = "hi\n@script " + script.replace("99999", f"{at:5d}")
        messages = [{"role": "user", "content": content}]
        return {"model": CHAT, "messages": messages, "stream": True, **_BODIES[name]}

    options = {"include_usage": True, "continuous_usage_stats": True}
    longest = _direct(cell, engine, {**body(1), "stream_options": options})
    for at in range(1, len(longest) + 1, 1 if name == "plain" else 3):
        expected = _direct(cell, engine, body(at))
        assert _through(cell, body(at)) == expected, at


def test_answers_that_are_not_streamed_are_equal(pair: tuple[Cell, ScriptedEngine]) -> None:
    for name in ("plain", "two", "tools", "cut short"):
        _compare(*pair, chat_body(script={"text": _WORDS}, **_BODIES[name]))


def test_what_is_in_a_tool_call_does_not_look_like_usage(
    pair: tuple[Cell, ScriptedEngine],
) -> None:
    """The words of a model cannot be taken for the engine's own fields."""
    default = '{"usage":{"completion_tokens":9}},"usage":{"a":1}'
    parameters = {"type": "string", "const": default}
    tools = [{"type": "function", "function": {"name": "look", "parameters": parameters}}]
    _compare(*pair, chat_body(stream=True, tools=tools, tool_choice="required"))


def test_usage_is_counted_whatever_the_caller_asked_for(
    pair: tuple[Cell, ScriptedEngine],
) -> None:
    cell, _ = pair
    for name in ("plain", "usage", "two", "two continuous"):
        answer = cell.chat(chat_body(script={"tokens": 5}, stream=True, **_BODIES[name]))
        line = cell.gateway.request_line(answer.headers["x-request-id"])
        assert line["output_tokens"] == (10 if "two" in name else 5)
        assert line["prompt_tokens"] > 0
        assert line["cached_tokens"] >= 0


def test_a_cut_stream_is_counted_to_its_last_event(pair: tuple[Cell, ScriptedEngine]) -> None:
    cell, _ = pair
    cases: list[dict[str, Any]] = [{}, {"n": 2}]
    for fields in cases:
        answer = cell.chat(chat_body(script={"tokens": 9, "cut_after": 7}, stream=True, **fields))
        line = cell.gateway.request_line(answer.headers["x-request-id"])
        # The first event of each choice only says its role.
        assert line["output_tokens"] == (5 if fields else 6)
        cell.wait_until_idle()


def test_the_engines_connection_is_kept(pair: tuple[Cell, ScriptedEngine]) -> None:
    cell, _ = pair
    for _ in range(5):
        assert isinstance(cell.chat(chat_body(stream=True)), httpx.Response)
    assert cell.gateway.metric("penstock_engine_connections") == 1
