"""The anthropic SDK on messages: the key goes in `x-api-key`, as it sends it."""

import json
from typing import Any

from anthropic import Anthropic, APIStatusError
from anthropic.types import Message, Usage
from tests.acceptance.clients.python.given import (
    HEADERS,
    INSTRUCTIONS,
    KEY,
    MODEL,
    PROMPT,
    TOOL_PROMPT,
    TURNS,
    URL,
    answer,
    weather,
)

client = Anthropic(base_url=URL, api_key=KEY, default_headers=HEADERS, max_retries=0)
TOKENS = 64
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Any = {"name": "weather", "description": "The weather in a city.", "input_schema": CITY}


def text() -> object:
    done = client.messages.create(model=MODEL, max_tokens=TOKENS, messages=_asked(PROMPT))
    return {"text": _words(done), "usage": _read(done.usage)}


def count() -> object:
    counted = client.messages.count_tokens(model=MODEL, messages=_asked(PROMPT))
    done = client.messages.create(model=MODEL, max_tokens=TOKENS, messages=_asked(PROMPT))
    return {"counted": counted.input_tokens, "usage": _read(done.usage)}


def stream() -> object:
    with client.messages.stream(model=MODEL, max_tokens=TOKENS, messages=_asked(PROMPT)) as events:
        pieces = list(events.text_stream)
        done = events.get_final_message()
    return {"pieces": pieces, "text": _words(done), "usage": _read(done.usage)}


def tools() -> object:
    said: list[Any] = _asked(TOOL_PROMPT)
    asked = client.messages.create(model=MODEL, max_tokens=TOKENS, messages=said, tools=[WEATHER])
    (call,) = [block for block in asked.content if block.type == "tool_use"]
    result = weather(**call.input)
    said += [
        {"role": "assistant", "content": asked.content},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call.id, "content": result}],
        },
    ]
    done = client.messages.create(model=MODEL, max_tokens=TOKENS, messages=said, tools=[WEATHER])
    return {"stop": asked.stop_reason, "results": [result], "text": _words(done)}


def structured() -> object:
    wanted: Any = {"format": {"type": "json_schema", "schema": CITY}}
    done = client.messages.create(
        model=MODEL, max_tokens=TOKENS, messages=_asked(PROMPT), output_config=wanted
    )
    return json.loads(_words(done))


def conversation() -> object:
    said: list[Any] = []
    usage = []
    for words in TURNS:
        said += _asked(words)
        done = client.messages.create(
            model=MODEL, max_tokens=TOKENS, system=INSTRUCTIONS, messages=said
        )
        said.append({"role": "assistant", "content": _words(done)})
        usage.append(_read(done.usage))
    return usage


def error() -> object:
    try:
        text()
    except APIStatusError as raised:
        body: Any = raised.body
        return {"raised": type(raised).__name__, "type": body["error"]["type"], "text": str(raised)}
    return None


def _asked(words: str) -> list[Any]:
    return [{"role": "user", "content": words}]


def _words(done: Message) -> str:
    return "".join([block.text for block in done.content if block.type == "text"])


def _read(usage: Usage) -> dict[str, int]:
    """This API counts cached tokens beside the others, not among them."""
    cached = usage.cache_read_input_tokens or 0
    prompt = usage.input_tokens + cached + (usage.cache_creation_input_tokens or 0)
    return {"prompt": prompt, "cached": cached, "output": usage.output_tokens}


if __name__ == "__main__":
    answer(
        {
            "text": text,
            "count": count,
            "stream": stream,
            "tools": tools,
            "structured": structured,
            "conversation": conversation,
            "error": error,
        }
    )
