"""A pydantic-ai agent with another base URL, on chat completions or on responses."""

import asyncio
from typing import Any

from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, ModelHTTPError, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
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

# Headers for every request are the openai client's matter: the provider takes one that has them.
client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY, default_headers=HEADERS)
provider = OpenAIProvider(openai_client=client)
Model = OpenAIResponsesModel if API == "responses" else OpenAIChatModel
model = Model(MODEL, provider=provider)


class Forecast(BaseModel):
    city: str
    degrees: int


def text() -> object:
    done = Agent(model).run_sync(PROMPT)
    return {"text": done.output, "usage": _read(done.usage)}


def stream() -> object:
    return asyncio.run(_stream(Agent(model), PROMPT))


def tools() -> object:
    done = Agent(model, tools=[weather]).run_sync(TOOL_PROMPT)
    return {"results": _results(done.all_messages()), "text": done.output}


def stream_tools() -> object:
    return asyncio.run(_stream(Agent(model, tools=[weather]), TOOL_PROMPT))


def structured() -> object:
    """By response_format."""
    return Agent(model, output_type=NativeOutput(Forecast)).run_sync(PROMPT).output.model_dump()


def structured_by_tool() -> object:
    """By a tool that must be called, which is pydantic-ai's own default."""
    return Agent(model, output_type=ToolOutput(Forecast)).run_sync(PROMPT).output.model_dump()


def conversation() -> object:
    agent = Agent(model, instructions=INSTRUCTIONS)
    history: list[Any] = []
    usage = []
    for words in TURNS:
        done = agent.run_sync(words, message_history=history)
        history = done.all_messages()
        usage.append(_read(done.usage))
    return usage


def error() -> object:
    try:
        text()
    except ModelHTTPError as raised:
        return {"raised": [type(raised).__name__], "status": raised.status_code}
    return None


async def _stream(agent: Any, prompt: str) -> object:
    async with agent.run_stream(prompt) as answering:
        pieces = [piece async for piece in answering.stream_text(delta=True, debounce_by=None)]
        return {
            "pieces": pieces,
            "results": _results(answering.all_messages()),
            "text": "".join(pieces),
            "usage": _read(answering.usage),
        }


def _results(messages: list[Any]) -> list[str]:
    parts = [part for message in messages for part in message.parts]
    return [part.content for part in parts if part.part_kind == "tool-return"]


def _read(usage: Any) -> dict[str, int]:
    return {
        "prompt": usage.input_tokens,
        "cached": usage.cache_read_tokens,
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
            "structured_by_tool": structured_by_tool,
            "conversation": conversation,
            "error": error,
        }
    )
