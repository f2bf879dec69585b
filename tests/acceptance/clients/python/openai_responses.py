"""The openai SDK on responses, stateless: the whole input goes with each request."""

from typing import Any

from openai import APIStatusError, OpenAI, pydantic_function_tool
from openai.types.responses import Response
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


# This API has a tool's name and parameters beside its type, not one level below.
WEATHER: Any = {"type": "function", **pydantic_function_tool(Place, name="weather")["function"]}


def text() -> object:
    done = client.responses.create(model=MODEL, input=PROMPT, store=False)
    return {"text": done.output_text, "usage": _read(done)}


def reasoning() -> object:
    done = client.responses.create(
        model=MODEL, input=PROMPT, store=False, reasoning={"effort": "low"}
    )
    return {"text": done.output_text, "usage": _read(done)}


def stream() -> object:
    with client.responses.stream(model=MODEL, input=PROMPT, store=False) as events:
        seen = list(events)
        done = events.get_final_response()
    pieces = [event.delta for event in seen if event.type == "response.output_text.delta"]
    return {"pieces": pieces, "text": done.output_text, "usage": _read(done)}


def tools() -> object:
    said: list[Any] = [{"role": "user", "content": TOOL_PROMPT}]
    asked = client.responses.create(model=MODEL, input=said, tools=[WEATHER], store=False)
    said += _after_the_tools(asked)
    done = client.responses.create(model=MODEL, input=said, tools=[WEATHER], store=False)
    return {"results": [said[-1]["output"]], "text": done.output_text}


def stream_tools() -> object:
    said: list[Any] = [{"role": "user", "content": TOOL_PROMPT}]
    with client.responses.stream(model=MODEL, input=said, tools=[WEATHER], store=False) as events:
        asked = events.get_final_response()
    said += _after_the_tools(asked)
    with client.responses.stream(model=MODEL, input=said, tools=[WEATHER], store=False) as events:
        done = events.get_final_response()
    return {"results": [said[-1]["output"]], "text": done.output_text}


def structured() -> object:
    done = client.responses.parse(model=MODEL, input=PROMPT, text_format=Forecast, store=False)
    assert done.output_parsed is not None
    return done.output_parsed.model_dump()


def conversation() -> object:
    said: list[Any] = []
    usage = []
    for words in TURNS:
        said.append({"role": "user", "content": words})
        done = client.responses.create(
            model=MODEL, instructions=INSTRUCTIONS, input=said, store=False
        )
        said.append({"role": "assistant", "content": done.output_text})
        usage.append(_read(done))
    return usage


def error() -> object:
    return _error_of(text)


def stored() -> object:
    """What asks for a state that nobody keeps."""

    def go_on() -> object:
        return client.responses.create(model=MODEL, input=PROMPT, previous_response_id="resp_1")

    return _error_of(go_on)


def _error_of(ask: Any) -> object:
    try:
        ask()
    except APIStatusError as raised:
        return {"raised": type(raised).__name__, "code": raised.code, "text": raised.message}
    return None


def _after_the_tools(asked: Response) -> list[Any]:
    """The model's one call, and what it gave."""
    (call,) = [item for item in asked.output if item.type == "function_call"]
    result = weather(Place.model_validate_json(call.arguments).city)
    return [
        {
            "type": "function_call",
            "call_id": call.call_id,
            "name": call.name,
            "arguments": call.arguments,
        },
        {"type": "function_call_output", "call_id": call.call_id, "output": result},
    ]


def _read(done: Response) -> dict[str, int]:
    assert done.usage is not None
    return {
        "prompt": done.usage.input_tokens,
        "cached": done.usage.input_tokens_details.cached_tokens,
        "output": done.usage.output_tokens,
    }


if __name__ == "__main__":
    answer(
        {
            "text": text,
            "reasoning": reasoning,
            "stream": stream,
            "tools": tools,
            "stream_tools": stream_tools,
            "structured": structured,
            "conversation": conversation,
            "error": error,
            "stored": stored,
        }
    )
