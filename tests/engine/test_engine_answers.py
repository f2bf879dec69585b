"""Real weights on a real vLLM: chat, stream, schema, tools, images, errors, on every surface."""

import base64
import json
import struct
import zlib
from typing import Any

import httpx
import pytest
from tests.engine.real_cell import TEXT_MODEL, VISION_MODEL, Cell

HELLO = [{"role": "user", "content": "Say hello in one short sentence."}]
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 20}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city.",
        "parameters": CITY,
        "strict": True,
    },
}

Body = dict[str, Any]


@pytest.fixture(params=["v1", "ai/v1", "ai/run"])
def surface(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def post(cell: Cell, surface: str, model: str, body: Body) -> httpx.Response:
    with cell.client() as client:
        if surface == "ai/run":
            return client.post(f"{cell.run_url}/{model}", json=body)
        base = cell.openai_url
        if surface == "ai/v1":
            base = f"{cell.workers_url}/accounts/{cell.account}/ai/v1"
        return client.post(f"{base}/chat/completions", json={"model": model, **body})


def completion(answer: httpx.Response, surface: str) -> Body:
    assert answer.status_code == 200, answer.text
    value: Body = answer.json()
    if surface == "ai/run":
        assert value["success"] is True
        assert value["errors"] == []
        result: Body = value["result"]
        return result
    return value


def png() -> str:
    """A 32 x 32 picture, as a data URL."""
    rows = b"".join(b"\0" + bytes([x * 8, y * 8, 90] * 1)[:3] * 32 for y in range(32) for x in [y])

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)
    image = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
    image += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(image).decode()


def test_chat_answers_with_text_and_usage(cell: Cell, surface: str) -> None:
    body = {"messages": HELLO, "max_tokens": 12, "temperature": 0}
    answer = completion(post(cell, surface, TEXT_MODEL, body), surface)
    assert answer["model"] == TEXT_MODEL
    assert answer["choices"][0]["message"]["content"].strip()
    usage = answer["usage"]
    assert usage["completion_tokens"] <= 12
    assert usage["prompt_tokens"] + usage["completion_tokens"] == usage["total_tokens"]


def test_stream_ends_with_a_reason_and_done(cell: Cell, surface: str) -> None:
    body = {"messages": HELLO, "max_tokens": 12, "temperature": 0, "stream": True}
    answer = post(cell, surface, TEXT_MODEL, body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in answer.text.split("\n\n") if line]
    assert events[-1] == "[DONE]"
    chunks = [json.loads(event) for event in events[:-1]]
    if surface == "ai/run":
        # Its clients cannot ask for the usage, and are told it unasked.
        assert chunks.pop()["usage"]["completion_tokens"] > 0
    text = "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks)
    assert text.strip()
    assert chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length")
    assert all("usage" not in chunk for chunk in chunks)


@pytest.mark.parametrize("spelling", ["bare", "wrapped"])
def test_json_schema_is_obeyed_in_both_spellings(cell: Cell, surface: str, spelling: str) -> None:
    schema: Body = CITY if spelling == "bare" else {"name": "city", "schema": CITY}
    body = {
        "messages": [{"role": "user", "content": "Name a city."}],
        "max_tokens": 40,
        "temperature": 0,
        "response_format": {"type": "json_schema", "json_schema": schema},
    }
    answer = completion(post(cell, surface, TEXT_MODEL, body), surface)
    value = json.loads(answer["choices"][0]["message"]["content"])
    assert set(value) == {"city"}
    assert isinstance(value["city"], str)


def test_required_tool_is_called(cell: Cell, surface: str) -> None:
    body: Body = {
        "messages": [{"role": "user", "content": "What is the weather in Paris?"}],
        "max_tokens": 60,
        "temperature": 0,
        "tools": [WEATHER],
        "tool_choice": "required",
    }
    answer = completion(post(cell, surface, TEXT_MODEL, body), surface)
    call = answer["choices"][0]["message"]["tool_calls"][0]
    assert call["function"]["name"] == "get_weather"
    assert set(json.loads(call["function"]["arguments"])) == {"city"}
    # The second turn carries the call with null content, and the tool's answer.
    body["messages"] += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "Sunny, 21 degrees."},
    ]
    body["tool_choice"] = "none"
    answer = completion(post(cell, surface, TEXT_MODEL, body), surface)
    assert answer["choices"][0]["message"]["content"] is not None


def test_image_is_read_by_the_vision_model(cell: Cell, surface: str) -> None:
    parts = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": png()}},
    ]
    body = {"messages": [{"role": "user", "content": parts}], "max_tokens": 4, "temperature": 0}
    with_image = completion(post(cell, surface, VISION_MODEL, body), surface)
    body["messages"] = [{"role": "user", "content": [parts[0]]}]
    without = completion(post(cell, surface, VISION_MODEL, body), surface)
    # The picture itself is 64 tokens of the prompt.
    assert with_image["usage"]["prompt_tokens"] >= without["usage"]["prompt_tokens"] + 64


def test_image_is_refused_by_a_text_model(cell: Cell, surface: str) -> None:
    part = {"type": "image_url", "image_url": {"url": png()}}
    answer = post(cell, surface, TEXT_MODEL, {"messages": [{"role": "user", "content": [part]}]})
    assert answer.status_code == 400
    assert "`vision`" in answer.json()["error"]["message"]


def test_too_long_a_context_is_a_400_that_says_so(cell: Cell, surface: str) -> None:
    body = {"messages": [{"role": "user", "content": "word " * 12_000}], "max_tokens": 4}
    answer = post(cell, surface, TEXT_MODEL, body)
    assert answer.status_code == 400
    assert "maximum context length" in answer.json()["error"]["message"]
    assert answer.headers["x-should-retry"] == "false"
    if surface != "v1":
        assert answer.json()["errors"][0]["code"] == 5006


def test_second_turn_of_a_conversation_hits_the_cache(cell: Cell, surface: str) -> None:
    story = f"On {surface} there was a river. " + "It ran down to the sea past the old mill. " * 60
    messages: list[Body] = [{"role": "user", "content": story}]
    body = {"messages": messages, "max_tokens": 8, "temperature": 0}
    first = completion(post(cell, surface, TEXT_MODEL, body), surface)
    messages += [first["choices"][0]["message"], {"role": "user", "content": "And then?"}]
    body["messages"] = [{"role": m["role"], "content": m["content"]} for m in messages]
    second = completion(post(cell, surface, TEXT_MODEL, body), surface)
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > 0
    assert cached <= second["usage"]["prompt_tokens"]
