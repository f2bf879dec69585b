"""Reads `/v1/messages` bodies for the scripted engine: blocks become chat messages."""

from typing import Any, Literal

import msgspec

from penstock.testing.scripted_engine.chat_request import ChatBody, read_chat_body
from penstock.testing.scripted_engine.engine_request import EngineRequest, Served, decode


class _Message(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[dict[str, Any]]


class _Tool(msgspec.Struct, frozen=True):
    name: str
    input_schema: dict[str, Any]


class _Body(msgspec.Struct, frozen=True):
    model: str
    messages: list[_Message]
    max_tokens: int
    system: str | list[dict[str, Any]] | None = None
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    tools: list[_Tool] | None = None
    tool_choice: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    cache_salt: str | None = None


# Chat templates leave out the reasoning of earlier answers.
_SHOWN = frozenset({"text", "image"})
_decoder = msgspec.json.Decoder(_Body)


def read_messages(payload: bytes, served: Served) -> EngineRequest:
    body = decode(_decoder, payload)
    chat = ChatBody(
        model=body.model,
        messages=_chat_messages(body),
        stream=body.stream,
        max_completion_tokens=body.max_tokens,
        stop=body.stop_sequences,
        tools=[_chat_tool(tool) for tool in body.tools or []],
        tool_choice=_chat_choice(body.tool_choice),
        response_format=_response_format(body.output_config),
        cache_salt=body.cache_salt,
    )
    return read_chat_body(chat, served, "max_completion_tokens")


def _chat_messages(body: _Body) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if body.system:
        messages.append({"role": "system", "content": body.system})
    for message in body.messages:
        if isinstance(message.content, str):
            messages.append({"role": message.role, "content": message.content})
            continue
        messages += _split(message.role, message.content)
    return messages


def _split(role: str, blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Split a message into those of a chat: one for each tool result, then one for the rest."""
    results = [block for block in blocks if block.get("type") == "tool_result"]
    calls = [block for block in blocks if block.get("type") == "tool_use"]
    rest = [block for block in blocks if block.get("type") in _SHOWN]
    split: list[dict[str, Any]] = [
        {"role": "tool", "content": result.get("content")} for result in results
    ]
    if rest or calls:
        split.append({"role": role, "content": rest, "tool_calls": calls})
    return split


def _chat_tool(tool: _Tool) -> dict[str, Any]:
    return {"type": "function", "function": {"name": tool.name, "parameters": tool.input_schema}}


def _chat_choice(choice: dict[str, Any] | None) -> str | dict[str, Any]:
    kind = (choice or {}).get("type", "auto")
    if choice is not None and kind == "tool":
        return {"type": "function", "function": {"name": choice["name"]}}
    return "required" if kind == "any" else str(kind)


def _response_format(output: dict[str, Any] | None) -> dict[str, Any] | None:
    wanted = (output or {}).get("format")
    if not wanted:
        return None
    return {"type": wanted.get("type"), "json_schema": {"schema": wanted.get("schema")}}
