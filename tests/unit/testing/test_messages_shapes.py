"""The scripted engine's `/v1/messages` against what vLLM 0.32.0 sent (SmolLM2 on CPU)."""

import json
from typing import Any

import pytest

from penstock.testing.scripted_engine.answer_shape import AnswerHead
from penstock.testing.scripted_engine.answer_usage import AnswerUsage
from penstock.testing.scripted_engine.engine_request import EngineRequest, Served
from penstock.testing.scripted_engine.messages_request import read_messages
from penstock.testing.scripted_engine.messages_shapes import MessagesShape
from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer, ScriptedToolCall

STREAM = """\
event: message_start
data: {"type":"message_start","message":{"id":"chatcmpl-88b181f7b2c5034e","type":"message","role":"assistant","content":[],"model":"smol","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":511,"output_tokens":0}}}

event: content_block_start
data: {"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"The"},"index":0}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":" pen"},"index":0}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"stock"},"index":0}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":" feeds"},"index":0}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":" the"},"index":0}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"input_tokens":127,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":384}}

event: message_stop
data: {"type":"message_stop"}

"""  # noqa: E501 - recorded, kept whole

WHOLE = """\
{"id":"chatcmpl-8c4e8b7e2c9446c3","type":"message","role":"assistant","content":[{"type":"text","text":"H"}],"model":"smol","stop_reason":"stop_sequence","stop_sequence":"e","usage":{"input_tokens":33,"output_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}"""

ASKED = {"model": "smol", "messages": [{"role": "user", "content": "Say hi."}], "max_tokens": 5}
CACHED = AnswerUsage(prompt_tokens=511, cached_tokens=384)


def _read(**fields: object) -> EngineRequest:
    return read_messages(json.dumps({**ASKED, **fields}).encode(), Served("smol", 8192))


def _shape(head: AnswerHead, usage: AnswerUsage, *ids: str) -> MessagesShape:
    return MessagesShape(_read(), head, usage, iter(ids).__next__)


def _sent(shape: MessagesShape, answer: ScriptedAnswer) -> list[str]:
    events = [event.decode() for _, event in shape.events([answer])]
    return [*events, shape.ending().decode()]


def _data(event: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(event.partition("data: ")[2])
    return data


def test_a_streamed_answer_is_byte_for_byte_that_of_vllm() -> None:
    events = [_data(event) for event in STREAM.strip().split("\n\n")]
    pieces = [event["delta"]["text"] for event in events if event["type"].endswith("block_delta")]
    answer = ScriptedAnswer(pieces=pieces, finish_reason="length", ends_with_piece=True)
    shape = _shape(AnswerHead(events[0]["message"]["id"], 1, "smol"), CACHED)
    assert "".join(_sent(shape, answer)) == STREAM


def test_a_whole_answer_is_byte_for_byte_that_of_vllm() -> None:
    answer = ScriptedAnswer(
        pieces=["H"], finish_reason="stop", stop_reason="e", ends_with_piece=True
    )
    shape = _shape(AnswerHead(json.loads(WHOLE)["id"], 1, "smol"), AnswerUsage(prompt_tokens=33))
    assert shape.whole([answer]).decode() == WHOLE


def test_input_tokens_leave_out_what_the_cache_had_and_got() -> None:
    usage = AnswerUsage(prompt_tokens=511, cached_tokens=128, created_tokens=256)
    answer = ScriptedAnswer(pieces=["a"], finish_reason="stop")
    told = json.loads(_shape(AnswerHead("i", 1, "m"), usage).whole([answer]))["usage"]
    assert told == {
        "input_tokens": 127,
        "output_tokens": 2,
        "cache_creation_input_tokens": 256,
        "cache_read_input_tokens": 128,
    }


def test_thinking_is_a_block_that_ends_with_its_signature() -> None:
    answer = ScriptedAnswer(pieces=["so"], reasoning=["hm", " yes"], finish_reason="stop")
    sent = [_data(event) for event in _sent(_shape(AnswerHead("i", 1, "m"), CACHED, "5"), answer)]
    kinds = [event.get("delta", {}).get("type", event["type"]) for event in sent]
    assert kinds == [
        "message_start",
        *("content_block_start", "thinking_delta", "thinking_delta", "signature_delta"),
        *("content_block_stop", "content_block_start", "text_delta", "content_block_stop"),
        "message_delta",
        "message_stop",
    ]


def test_a_call_is_a_block_whose_input_comes_in_pieces() -> None:
    calls = [ScriptedToolCall("look", ['{"a"', ":1}"])]
    answer = ScriptedAnswer(pieces=[], finish_reason="tool_calls", tool_calls=calls)
    shape = _shape(AnswerHead("i", 1, "m"), CACHED, "7", "7")
    sent = [_data(event) for event in _sent(shape, answer)]
    block = {"type": "tool_use", "id": "chatcmpl-tool-7", "name": "look", "input": {}}
    assert sent[1]["content_block"] == block
    assert "".join(event["delta"]["partial_json"] for event in sent[2:4]) == '{"a":1}'
    assert sent[-2]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert json.loads(shape.whole([answer]))["content"] == [{**block, "input": {"a": 1}}]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({"type": "any"}, "required"),
        ({"type": "none"}, "none"),
        (None, "auto"),
        ({"type": "tool", "name": "look"}, {"type": "function", "function": {"name": "look"}}),
    ],
)
def test_choices_of_tools_are_read_as_a_chats(choice: object, expected: object) -> None:
    tool = {"name": "look", "input_schema": {"type": "object"}}
    assert _read(tools=[tool], tool_choice=choice).tool_choice == expected
