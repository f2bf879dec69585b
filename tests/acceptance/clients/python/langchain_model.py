"""LangChain's ChatOpenAI with another base URL, on chat completions or on responses."""

from typing import Any

import openai
from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, Field
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

model = ChatOpenAI(
    base_url=f"{URL}/v1",
    api_key=KEY,
    model=MODEL,
    default_headers=HEADERS,
    use_responses_api=API == "responses",
    # LangChain asks for it by itself only where the base URL is OpenAI's own.
    stream_usage=True,
)


class Forecast(BaseModel):
    """What the weather will be."""

    city: str = Field(description="Where.")
    degrees: int = Field(description="In Celsius.")


def text() -> object:
    done = model.invoke(PROMPT)
    return {"text": done.text, "usage": _read(done)}


def stream() -> object:
    pieces = list(model.stream(PROMPT))
    whole = pieces[0]
    for piece in pieces[1:]:
        whole += piece
    return {"pieces": [piece.text for piece in pieces if piece.text], "usage": _read(whole)}


def tools() -> object:
    return _tool_round(lambda bound, messages: bound.invoke(messages))


def stream_tools() -> object:
    def ask(bound: Any, messages: list[Any]) -> Any:
        pieces = list(bound.stream(messages))
        whole = pieces[0]
        for piece in pieces[1:]:
            whole += piece
        return whole

    return _tool_round(ask)


def structured() -> object:
    return model.with_structured_output(Forecast).invoke(PROMPT).model_dump()


def conversation() -> object:
    messages: list[Any] = [SystemMessage(INSTRUCTIONS)]
    usage = []
    for words in TURNS:
        messages.append(HumanMessage(words))
        done = model.invoke(messages)
        messages.append(done)
        usage.append(_read(done))
    return usage


def error() -> object:
    try:
        text()
    except openai.APIStatusError as raised:
        kind = type(raised)
        return {"raised": [kind.__name__, *(base.__name__ for base in kind.__bases__)]}
    return None


def _tool_round(ask: Any) -> object:
    tool = StructuredTool.from_function(weather)
    bound = model.bind_tools([tool])
    messages: list[Any] = [HumanMessage(TOOL_PROMPT)]
    messages.append(ask(bound, messages))
    results = [tool.invoke(call) for call in messages[-1].tool_calls]
    messages += results
    return {"results": [result.content for result in results], "text": ask(bound, messages).text}


def _read(message: Any) -> dict[str, int]:
    usage = message.usage_metadata
    return {
        "prompt": usage["input_tokens"],
        "cached": usage["input_token_details"]["cache_read"],
        "output": usage["output_tokens"],
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
