"""The scripted engine's `/v1/responses` against what vLLM 0.32.0 sent (SmolLM2 on CPU)."""

import json
from collections.abc import Callable
from typing import Any

from penstock.testing.scripted_engine.answer_shape import AnswerHead
from penstock.testing.scripted_engine.answer_usage import AnswerUsage
from penstock.testing.scripted_engine.engine_request import EngineRequest, Served
from penstock.testing.scripted_engine.responses_request import read_responses
from penstock.testing.scripted_engine.responses_shapes import ResponsesShape
from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer, ScriptedToolCall

STREAM = """\
event: response.created
data: {"response":{"id":"resp_aef11c2178f716f6","created_at":1794758995,"incomplete_details":null,"instructions":null,"metadata":null,"model":"smol","object":"response","output":[],"parallel_tool_calls":true,"temperature":0.0,"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":5,"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"in_progress","text":null,"top_logprobs":null,"truncation":"disabled","usage":null,"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null},"sequence_number":0,"type":"response.created"}

event: response.in_progress
data: {"response":{"id":"resp_aef11c2178f716f6","created_at":1794758995,"incomplete_details":null,"instructions":null,"metadata":null,"model":"smol","object":"response","output":[],"parallel_tool_calls":true,"temperature":0.0,"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":5,"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"in_progress","text":null,"top_logprobs":null,"truncation":"disabled","usage":null,"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null},"sequence_number":1,"type":"response.in_progress"}

event: response.output_item.added
data: {"item":{"id":"msg_b01a5f035d218530","content":[],"role":"assistant","status":"in_progress","type":"message","phase":null},"output_index":0,"sequence_number":2,"type":"response.output_item.added"}

event: response.content_part.added
data: {"content_index":0,"item_id":"msg_b01a5f035d218530","output_index":0,"part":{"annotations":[],"text":"","type":"output_text","logprobs":[]},"sequence_number":3,"type":"response.content_part.added"}

event: response.output_text.delta
data: {"content_index":0,"delta":"Hello","item_id":"msg_b01a5f035d218530","logprobs":[],"output_index":0,"sequence_number":4,"type":"response.output_text.delta"}

event: response.output_text.delta
data: {"content_index":0,"delta":" there","item_id":"msg_b01a5f035d218530","logprobs":[],"output_index":0,"sequence_number":5,"type":"response.output_text.delta"}

event: response.output_text.delta
data: {"content_index":0,"delta":"!","item_id":"msg_b01a5f035d218530","logprobs":[],"output_index":0,"sequence_number":6,"type":"response.output_text.delta"}

event: response.output_text.delta
data: {"content_index":0,"delta":" I","item_id":"msg_b01a5f035d218530","logprobs":[],"output_index":0,"sequence_number":7,"type":"response.output_text.delta"}

event: response.output_text.delta
data: {"content_index":0,"delta":"'m","item_id":"msg_b01a5f035d218530","logprobs":[],"output_index":0,"sequence_number":8,"type":"response.output_text.delta"}

event: response.output_text.done
data: {"content_index":0,"item_id":"msg_b01a5f035d218530","logprobs":[],"output_index":0,"sequence_number":9,"text":"Hello there! I'm","type":"response.output_text.done"}

event: response.content_part.done
data: {"content_index":0,"item_id":"msg_b01a5f035d218530","output_index":0,"part":{"annotations":[],"text":"Hello there! I'm","type":"output_text","logprobs":null},"sequence_number":10,"type":"response.content_part.done"}

event: response.output_item.done
data: {"item":{"id":"msg_b01a5f035d218530","content":[{"annotations":[],"text":"Hello there! I'm","type":"output_text","logprobs":null}],"role":"assistant","status":"completed","type":"message","phase":null},"output_index":0,"sequence_number":11,"type":"response.output_item.done"}

event: response.completed
data: {"response":{"id":"resp_aef11c2178f716f6","created_at":1794758995,"incomplete_details":{"reason":"max_output_tokens"},"instructions":null,"metadata":null,"model":"smol","object":"response","output":[{"id":"msg_b01a5f035d218530","content":[{"annotations":[],"text":"Hello there! I'm","type":"output_text","logprobs":null}],"role":"assistant","status":"completed","type":"message","phase":null}],"parallel_tool_calls":true,"temperature":0.0,"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":5,"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"incomplete","text":null,"top_logprobs":null,"truncation":"disabled","usage":{"input_tokens":33,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]},"total_tokens":38},"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null},"sequence_number":12,"type":"response.completed"}

"""  # noqa: E501 - recorded, kept whole

CALL_EVENTS = """\
event: response.output_item.added
data: {"item":{"arguments":"","call_id":"chatcmpl-tool-b3c46a389be9f8c1","name":"get_weather","type":"function_call","id":"fc_a45a013a04616ecd","async":null,"caller":null,"namespace":null,"status":"in_progress"},"output_index":0,"sequence_number":2,"type":"response.output_item.added"}

event: response.function_call_arguments.delta
data: {"delta":"{","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":3,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":"\\n    \\"","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":4,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":"c","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":5,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":"it","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":6,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":"y","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":7,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":"\\"","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":8,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":" :","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":9,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":" \\"","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":10,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":"O","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":11,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":"s","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":12,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":"lo","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":13,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":"\\"","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":14,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.delta
data: {"delta":"\\n}","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":15,"type":"response.function_call_arguments.delta"}

event: response.function_call_arguments.done
data: {"arguments":"{\\n    \\"city\\" : \\"Oslo\\"\\n}","item_id":"fc_a45a013a04616ecd","output_index":0,"sequence_number":16,"type":"response.function_call_arguments.done","name":"get_weather"}

event: response.output_item.done
data: {"item":{"arguments":"{\\n    \\"city\\" : \\"Oslo\\"\\n}","call_id":"chatcmpl-tool-b3c46a389be9f8c1","name":"get_weather","type":"function_call","id":"fc_a45a013a04616ecd","async":null,"caller":null,"namespace":null,"status":"completed"},"output_index":0,"sequence_number":17,"type":"response.output_item.done"}

"""  # noqa: E501 - recorded, kept whole

WHOLE = """\
{"id":"resp_8ff4b3c6e0523499","created_at":1794758995,"incomplete_details":{"reason":"max_output_tokens"},"instructions":null,"metadata":null,"model":"smol","object":"response","output":[{"id":"msg_866237b6cbe2f8ff","content":[{"annotations":[],"text":"Hello there! I'm","type":"output_text","logprobs":null}],"role":"assistant","status":"completed","type":"message","phase":null}],"parallel_tool_calls":true,"temperature":0.0,"tool_choice":"none","tools":[],"top_p":1.0,"background":false,"max_output_tokens":5,"max_tool_calls":null,"previous_response_id":null,"prompt":null,"reasoning":null,"service_tier":"auto","status":"incomplete","text":null,"top_logprobs":null,"truncation":"disabled","usage":{"input_tokens":33,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0,"input_tokens_per_turn":[],"cached_tokens_per_turn":[]},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":0,"tool_output_tokens":0,"output_tokens_per_turn":[],"tool_output_tokens_per_turn":[]},"total_tokens":38},"user":null,"presence_penalty":0.0,"frequency_penalty":0.0,"kv_transfer_params":null,"ec_transfer_params":null,"input_messages":null,"output_messages":null}"""  # noqa: E501 - recorded, kept whole

ASKED = {"model": "smol", "input": "Say hi.", "max_output_tokens": 5, "temperature": 0}
WORDS = ["Hello", " there", "!", " I", "'m"]
HELLO = ScriptedAnswer(pieces=WORDS, finish_reason="length", ends_with_piece=True)
USAGE = AnswerUsage(prompt_tokens=33)
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object"}}


def _read(**fields: object) -> EngineRequest:
    return read_responses(json.dumps({**ASKED, **fields}).encode(), Served("smol", 8192))


def _ids(*ids: str) -> Callable[[], str]:
    return iter(ids).__next__


def _sent(shape: ResponsesShape, answer: ScriptedAnswer) -> list[str]:
    events = [event.decode() for _, event in shape.events([answer])]
    return [*events, shape.ending().decode()]


def _data(event: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(event.partition("data: ")[2])
    return data


def test_a_streamed_answer_is_byte_for_byte_that_of_vllm() -> None:
    head = AnswerHead("resp_aef11c2178f716f6", 1794758995, "smol")
    shape = ResponsesShape(_read(stream=True), head, USAGE, _ids("b01a5f035d218530"))
    assert "".join(_sent(shape, HELLO)) == STREAM


def test_the_events_of_a_call_are_byte_for_byte_those_of_vllm() -> None:
    pieces = [_data(event)["delta"] for event in CALL_EVENTS.split("\n\n") if ".delta" in event]
    answer = ScriptedAnswer(
        pieces=[], finish_reason="tool_calls", tool_calls=[ScriptedToolCall("get_weather", pieces)]
    )
    ids = _ids("b3c46a389be9f8c1", "a45a013a04616ecd")
    shape = ResponsesShape(_read(tools=[TOOL]), AnswerHead("r", 1, "smol"), USAGE, ids)
    assert "".join(_sent(shape, answer)[2:-1]) == CALL_EVENTS


def test_a_whole_answer_is_byte_for_byte_that_of_vllm() -> None:
    head = AnswerHead("resp_8ff4b3c6e0523499", 1794758995, "smol")
    shape = ResponsesShape(_read(), head, USAGE, _ids("866237b6cbe2f8ff"))
    assert shape.whole([HELLO]).decode() == WHOLE


def test_reasoning_is_an_item_before_the_words() -> None:
    answer = ScriptedAnswer(pieces=["so"], reasoning=["hm", " yes"], finish_reason="stop")
    shape = ResponsesShape(_read(), AnswerHead("r", 1, "m"), USAGE, _ids("a", "b"))
    kinds = [_data(event)["type"].removeprefix("response.") for event in _sent(shape, answer)]
    assert kinds == [
        "created",
        "in_progress",
        *("output_item.added", "content_part.added"),
        *("reasoning_text.delta", "reasoning_text.delta"),
        *("reasoning_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        "completed",
    ]


def test_what_was_streamed_is_repeated_at_the_end_and_usage_stands_there_alone() -> None:
    answer = ScriptedAnswer(pieces=["so"], reasoning=["hm"], finish_reason="stop")
    usage = AnswerUsage(prompt_tokens=64, cached_tokens=48, created_tokens=16)
    shape = ResponsesShape(_read(), AnswerHead("r", 1, "m"), usage, _ids("a", "b"))
    sent = [_data(event) for event in _sent(shape, answer)]
    done = [event["item"] for event in sent if event["type"] == "response.output_item.done"]
    last = sent.pop()["response"]
    assert (last["status"], last["output"]) == ("completed", done)
    assert last["usage"]["input_tokens"] == 64
    assert last["usage"]["input_tokens_details"]["cached_tokens"] == 48
    assert last["usage"]["output_tokens_details"]["reasoning_tokens"] == 1
    assert last["usage"]["total_tokens"] == 64 + answer.completion_tokens
    assert "input_tokens" not in json.dumps(sent)


def test_a_tool_of_a_namespace_and_a_free_one_are_called_by_their_own_names() -> None:
    inner = {"type": "function", "name": "read", "parameters": {}}
    tools = [
        {"type": "namespace", "name": "files", "tools": [inner]},
        {"type": "custom", "name": "patch"},
        {"type": "web_search"},
    ]
    request = _read(tools=tools)
    assert [tool["function"]["name"] for tool in request.tools] == ["files__read", "patch"]
    calls = [
        ScriptedToolCall("files__read", ["{}"]),
        ScriptedToolCall("patch", ['{"input":"a new line"}']),
    ]
    answer = ScriptedAnswer(pieces=[], finish_reason="tool_calls", tool_calls=calls)
    shape = ResponsesShape(request, AnswerHead("r", 1, "m"), USAGE, _ids(*"abcd"))
    first, second = json.loads(shape.whole([answer]))["output"]
    assert (first["type"], first["namespace"], first["name"]) == ("function_call", "files", "read")
    assert (second["type"], second["name"]) == ("custom_tool_call", "patch")
    assert second["input"] == "a new line"
