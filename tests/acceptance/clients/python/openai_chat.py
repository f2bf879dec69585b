"""The openai SDK on chat completions, with nothing changed but the base URL and the key."""

from typing import Any

from openai import APIStatusError, OpenAI, pydantic_function_tool
from openai.types.completion_usage import CompletionUsage
from pydantic import BaseModel
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

client = OpenAI(base_url=f"{URL}/v1", api_key=KEY, default_headers=HEADERS)


class Place(BaseModel):
    city: str


class Forecast(BaseModel):
    city: str
    degrees: int


WEATHER = pydantic_function_tool(Place, name="weather")


def models() -> object:
    return [model.id for model in client.models.list()]


def text() -> object:
    done = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": PROMPT}], max_tokens=16
    )
    return {"text": done.choices[0].message.content, "usage": _read(done.usage)}


def stream() -> object:
    chunks = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": PROMPT}],
        max_tokens=16,
        stream=True,
        stream_options={"include_usage": True},
    )
    pieces, finish, usage = [], None, None
    for chunk in chunks:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            pieces += [choice.delta.content] if choice.delta.content else []
            finish = choice.finish_reason or finish
    return {"pieces": pieces, "finish": finish, "usage": _read(usage)}


def tools() -> object:
    messages: list[Any] = [{"role": "user", "content": TOOL_PROMPT}]
    asked = client.chat.completions.parse(model=MODEL, messages=messages, tools=[WEATHER])
    messages += _after_the_tools(asked.choices[0].message)
    done = client.chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER])
    return {"results": [messages[-1]["content"]], "text": done.choices[0].message.content}


def stream_tools() -> object:
    messages: list[Any] = [{"role": "user", "content": TOOL_PROMPT}]
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=[WEATHER]) as events:
        asked = events.get_final_completion()
    messages += _after_the_tools(asked.choices[0].message)
    with client.chat.completions.stream(model=MODEL, messages=messages, tools=[WEATHER]) as events:
        done = events.get_final_completion()
    return {"results": [messages[-1]["content"]], "text": done.choices[0].message.content}


def structured() -> object:
    done = client.chat.completions.parse(
        model=MODEL, messages=[{"role": "user", "content": PROMPT}], response_format=Forecast
    )
    parsed = done.choices[0].message.parsed
    assert parsed is not None
    return parsed.model_dump()


def conversation() -> object:
    messages: list[Any] = [{"role": "system", "content": INSTRUCTIONS}]
    usage = []
    for words in TURNS:
        messages.append({"role": "user", "content": words})
        done = client.chat.completions.create(model=MODEL, messages=messages)
        messages.append({"role": "assistant", "content": done.choices[0].message.content})
        usage.append(_read(done.usage))
    return usage


def error() -> object:
    try:
        text()
    except APIStatusError as raised:
        return {
            "raised": type(raised).__name__,
            "status": raised.status_code,
            "code": raised.code,
            "text": raised.message,
        }
    return None


def _after_the_tools(message: Any) -> list[dict[str, Any]]:
    """What the model said, and what its one call gave."""
    (call,) = message.tool_calls
    result = weather(call.function.parsed_arguments.city)
    return [
        message.to_dict(),
        {"role": "tool", "tool_call_id": call.id, "content": result},
    ]


def _read(usage: CompletionUsage | None) -> dict[str, int | None]:
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    return {
        "prompt": usage.prompt_tokens,
        "cached": usage.prompt_tokens_details.cached_tokens,
        "output": usage.completion_tokens,
    }


if __name__ == "__main__":
    answer(
        {
            "models": models,
            "text": text,
            "stream": stream,
            "tools": tools,
            "stream_tools": stream_tools,
            "structured": structured,
            "conversation": conversation,
            "error": error,
        }
    )
