"""A whole answer as a stream: what openai's SDK puts together again is the answer."""

import json
from typing import Any

import pytest

from penstock.errors import EngineFailed
from penstock.wire.apis.native_stream import native_events
from penstock.wire.apis.whole_stream import whole_events

USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
CALL = {
    "id": "functions.look:0",
    "type": "function",
    "function": {"name": "look", "arguments": "{}"},
}


def completion(*messages: dict[str, Any], **top: Any) -> bytes:
    choices = [
        {"index": at, "message": message, "finish_reason": "stop", "logprobs": None}
        for at, message in enumerate(messages)
    ]
    head = {"id": "c1", "object": "chat.completion", "created": 7, "model": "m"}
    return json.dumps({**head, "choices": choices, "usage": USAGE, **top}).encode()


def chunks_of(events: bytes) -> list[dict[str, Any]]:
    parts = events.decode().split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]


def test_message_then_its_end() -> None:
    message = {"role": "assistant", "content": "héllo", "refusal": None, "reasoning": "so"}
    first, last = chunks_of(whole_events(completion(message), with_usage=False))
    assert (first["id"], first["object"], first["created"]) == ("c1", "chat.completion.chunk", 7)
    delta = first["choices"][0]["delta"]
    assert delta == {"role": "assistant", "content": "héllo", "reasoning": "so"}
    assert first["choices"][0]["finish_reason"] is None
    assert last["choices"][0] == {
        "index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop",
    }  # fmt: skip


def test_usage_comes_once_if_it_was_asked_for() -> None:
    answer = completion({"role": "assistant", "content": "a"}, service_tier="flex")
    assert all("usage" not in chunk for chunk in chunks_of(whole_events(answer, with_usage=False)))
    chunks = chunks_of(whole_events(answer, with_usage=True))
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == USAGE
    assert all(chunk["service_tier"] == "flex" for chunk in chunks)


def test_tool_calls_carry_their_place() -> None:
    answer = completion({"role": "assistant", "content": None, "tool_calls": [CALL, CALL]})
    delta = chunks_of(whole_events(answer, with_usage=False))[0]["choices"][0]["delta"]
    assert delta["tool_calls"] == [{"index": 0, **CALL}, {"index": 1, **CALL}]
    assert "content" not in delta


def test_every_choice_is_told() -> None:
    answer = completion({"content": "a"}, {"content": "b", "tool_calls": []})
    chunks = chunks_of(whole_events(answer, with_usage=False))
    assert [chunk["choices"][0]["index"] for chunk in chunks] == [0, 0, 1, 1]
    assert chunks[2]["choices"][0]["delta"] == {"content": "b", "role": "assistant"}


def test_native_models_can_tell_it_too() -> None:
    events = native_events(whole_events(completion({"content": "a"}), with_usage=True))
    chunks = chunks_of(events)
    assert "".join(chunk["response"] for chunk in chunks) == "a"
    assert [chunk["usage"] for chunk in chunks if "usage" in chunk] == [USAGE]


@pytest.mark.parametrize(
    "answer", [b"", b"{}", b"[]", b'{"choices": 3}', b'{"choices":[{}]}', b"\xff"]
)
def test_answer_without_a_known_shape_is_the_engines_failure(answer: bytes) -> None:
    with pytest.raises(EngineFailed):
        whole_events(answer, with_usage=False)
