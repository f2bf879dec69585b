"""OpenAI's agents SDK under a contract: two tools, each of which records that it ran."""

import asyncio
from typing import Any, Literal

import openai
from agents import (
    Agent,
    ItemHelpers,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.exceptions import AgentsException
from openai import AsyncOpenAI
from tests.acceptance.clients.python.given import (
    KEY,
    MODEL,
    PROMPT,
    URL,
    WORKFLOW,
    answer,
)

# Traces would go to api.openai.com, whatever the base URL is.
set_tracing_disabled(True)
client = AsyncOpenAI(
    base_url=f"{URL}/v1", api_key=KEY, default_headers={"x-penstock-workflow": WORKFLOW}
)
ran: list[str] = []


def bash(command: Literal["ls", "pwd"]) -> str:
    """Run a command."""
    ran.append(f"bash {command}")
    return "penstock.txt"


def weather(city: str) -> str:
    """The weather in a city."""
    ran.append(f"weather {city}")
    return f"Rain in {city}."


async def everywhere() -> object:
    """In one process, because its start costs more. Responses are stored if nothing is said."""
    chat = OpenAIChatCompletionsModel(MODEL, openai_client=client)
    responses = OpenAIResponsesModel(MODEL, openai_client=client)
    return {
        "chat": await _run(chat, ModelSettings()),
        "stored": await _run(responses, ModelSettings()),
        "unstored": await _run(responses, ModelSettings(store=False)),
    }


async def forced() -> object:
    """A real model calls the tool because it must; its answers are bounded, because it is small."""
    chat = OpenAIChatCompletionsModel(MODEL, openai_client=client)
    return await _run(chat, ModelSettings(tool_choice="bash", max_tokens=60))


async def _run(model: Any, settings: ModelSettings) -> dict[str, Any]:
    tools: list[Any] = [function_tool(bash), function_tool(weather)]
    agent = Agent(name="A", model=model, tools=tools, model_settings=settings)
    ran.clear()
    done = Runner.run_streamed(agent, PROMPT)
    try:
        async for _ in done.stream_events():
            pass
    except (openai.OpenAIError, AgentsException) as raised:
        return {"ran": [*ran], "raised": str(raised), "code": getattr(raised, "code", None)}
    said = [
        ItemHelpers.text_message_output(item)
        for item in done.new_items
        if item.type == "message_output_item"
    ]
    return {"ran": [*ran], "texts": said, "text": done.final_output}


if __name__ == "__main__":
    answer(
        {
            "everywhere": lambda: asyncio.run(everywhere()),
            "forced": lambda: asyncio.run(forced()),
        }
    )
