"""OpenAI's agents SDK with another base URL, on chat completions or on responses."""

import asyncio
from typing import Any

import openai
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from pydantic import BaseModel
from tests.acceptance.clients.python.given import (
    API,
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

# Traces would go to api.openai.com, whatever the base URL is.
set_tracing_disabled(True)
client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, default_headers=HEADERS)
Model = OpenAIResponsesModel if API == "responses" else OpenAIChatCompletionsModel
model = Model(MODEL, openai_client=client)
# Without it a stream of chat completions asks for no usage, and the client counts nothing.
settings = ModelSettings(include_usage=True)


class Forecast(BaseModel):
    city: str
    degrees: int


def text() -> object:
    done = Runner.run_sync(Agent(name="A", model=model, model_settings=settings), PROMPT)
    return {"text": done.final_output, "usage": _read(done)}


def stream() -> object:
    return asyncio.run(_stream(Agent(name="A", model=model, model_settings=settings), PROMPT))


def tools() -> object:
    done = Runner.run_sync(_weather_agent(), TOOL_PROMPT)
    return {"results": _results(done), "text": done.final_output}


def stream_tools() -> object:
    return asyncio.run(_stream(_weather_agent(), TOOL_PROMPT))


def structured() -> object:
    agent = Agent(name="A", model=model, model_settings=settings, output_type=Forecast)
    return Runner.run_sync(agent, PROMPT).final_output.model_dump()


def conversation() -> object:
    agent = Agent(name="A", model=model, model_settings=settings, instructions=INSTRUCTIONS)
    said: list[Any] = []
    usage = []
    for words in TURNS:
        done = Runner.run_sync(agent, [*said, {"role": "user", "content": words}])
        said = done.to_input_list()
        usage.append(_read(done))
    return usage


def error() -> object:
    try:
        text()
    except openai.APIStatusError as raised:
        return {
            "raised": [type(raised).__name__],
            "status": raised.status_code,
            "code": raised.code,
        }
    return None


def _weather_agent() -> Any:
    return Agent(name="A", model=model, model_settings=settings, tools=[function_tool(weather)])


async def _stream(agent: Any, prompt: str) -> object:
    done = Runner.run_streamed(agent, prompt)
    raw = [e.data async for e in done.stream_events() if e.type == "raw_response_event"]
    pieces = [event.delta for event in raw if event.type == "response.output_text.delta"]
    return {
        "pieces": pieces,
        "results": _results(done),
        "text": done.final_output,
        "usage": _read(done),
    }


def _results(done: Any) -> list[str]:
    return [item.output for item in done.new_items if item.type == "tool_call_output_item"]


def _read(done: Any) -> dict[str, int]:
    usage = done.context_wrapper.usage
    return {
        "prompt": usage.input_tokens,
        "cached": usage.input_tokens_details.cached_tokens,
        "output": usage.output_tokens,
    }


if __name__ == "__main__":
    answer(
        {
            "text": text,
            "stream": stream,
            "tools": tools,
            "stream_tools": stream_tools,
            "structured": structured,
            "conversation": conversation,
            "error": error,
        }
    )
