"""OpenAI's agents SDK with its session that keeps a conversation on the server."""

import asyncio
from typing import Any

import openai
from agents import (
    Agent,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from tests.acceptance.clients.python.given import (
    CONVERSATION,
    KEY,
    MODEL,
    TOOL_PROMPT,
    TURNS,
    URL,
    answer,
    weather,
)

# Traces would go to api.openai.com, whatever the base URL is.
set_tracing_disabled(True)
client = AsyncOpenAI(base_url=f"{URL}/v1", api_key=KEY)
agent = Agent(
    name="A",
    instructions="You know the weather.",
    model=OpenAIResponsesModel(MODEL, openai_client=client),
    tools=[function_tool(weather)],
)
# The scripted engine thinks this before it answers in words.
THINKING = '@script {"reasoning": "It rains there."}'


async def talk() -> object:
    """Two turns, the first with a tool and a thought."""
    session = OpenAIConversationsSession(openai_client=client)
    first = await Runner.run(agent, f"{TOOL_PROMPT}\n{THINKING}", session=session)
    second = await Runner.run(agent, TURNS[1], session=session)
    return {
        "conversation": session.session_id,
        "texts": [first.final_output, second.final_output],
        "items": await session.get_items(),
    }


async def resume() -> object:
    """Another process goes on from a conversation that it knows by its id alone."""
    session = OpenAIConversationsSession(conversation_id=CONVERSATION, openai_client=client)
    found = await session.get_items()
    run = Runner.run_streamed(agent, "And the day after?", session=session)
    async for _ in run.stream_events():
        pass
    return {"found": found, "text": run.final_output, "items": await session.get_items()}


async def pop_and_clear() -> object:
    """The last answer is taken back and asked for again; then all is deleted."""
    session = OpenAIConversationsSession(openai_client=client)
    first = await Runner.run(agent, TURNS[0], session=session)
    popped: Any = await session.pop_item()
    left = await session.get_items()
    await Runner.run(agent, TURNS[1], session=session)
    conversation = session.session_id
    await session.clear_session()
    try:
        await client.conversations.retrieve(conversation)
    except openai.NotFoundError as raised:
        error = raised.code
    else:
        error = None
    return {
        "text": first.final_output,
        "popped": popped["content"][0]["text"],
        "left": left,
        "error": error,
        "after": await session.get_items(),
        "is_new": session.session_id != conversation,
    }


if __name__ == "__main__":
    answer(
        {
            "talk": lambda: asyncio.run(talk()),
            "resume": lambda: asyncio.run(resume()),
            "pop_and_clear": lambda: asyncio.run(pop_and_clear()),
        }
    )
