"""Reads `/v1/responses` bodies for the scripted engine: items become chat messages.

The engine stores nothing, and refuses requests for stored state as a vLLM without its store does.
"""

from typing import Any

import msgspec

from penstock.testing.scripted_engine.chat_request import ChatBody, read_chat_body
from penstock.testing.scripted_engine.engine_request import (
    EngineRequest,
    MalformedRequestError,
    RequestRefusedError,
    Served,
    decode,
)

_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_CALLS = frozenset({"function_call", "custom_tool_call"})
_RUN_ELSEWHERE = frozenset({
    "file_search", "computer", "computer_use_preview", "web_search", "web_search_2025_08_26",
    "web_search_preview", "web_search_preview_2025_03_11", "mcp", "code_interpreter",
    "image_generation", "local_shell", "shell", "tool_search", "apply_patch",
})  # fmt: skip
_NAMESPACED = "{}__{}"
# Fields that vLLM's answers repeat, in its order; null where the request has none.
_REASONING = ("context", "effort", "generate_summary", "mode", "summary")
_TOOL = (
    "name", "parameters", "strict", "type", "allowed_callers", "async", "defer_loading",
    "description", "output_schema",
)  # fmt: skip
_ANY_TEXT = {
    "type": "object",
    "properties": {"input": {"type": "string"}},
    "required": ["input"],
}


class _Body(msgspec.Struct, frozen=True):
    input: str | list[dict[str, Any]]
    model: str | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    stream: bool | None = None
    stop: str | list[str] | None = None
    tools: list[dict[str, Any]] = []
    tool_choice: str | dict[str, Any] = "auto"
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    prompt: dict[str, Any] | None = None
    request_id: str = ""
    priority: int = 0
    cache_salt: str | None = None
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tool_calls: int | None = None
    service_tier: str = "auto"
    truncation: str | None = "disabled"
    user: str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None


_decoder = msgspec.json.Decoder(_Body)


def read_responses(payload: bytes, served: Served) -> EngineRequest:
    body = decode(_decoder, payload)
    _refuse_state(body)
    tools = [chat for tool in body.tools for chat in _chat_tools(tool)]
    chat = ChatBody(
        model=body.model,
        messages=_messages(body),
        stream=body.stream,
        max_tokens=body.max_output_tokens,
        stop=body.stop,
        tools=tools,
        tool_choice=_chat_choice(body.tool_choice),
        response_format=_response_format(body.text),
        priority=body.priority,
        cache_salt=body.cache_salt,
    )
    request = read_chat_body(chat, served, "max_output_tokens")
    left = served.max_model_len - request.prompt_tokens
    limit = min(request.token_limit or left, left)
    return msgspec.structs.replace(
        request, id=body.request_id, echo={**_echo(body), "max_output_tokens": limit}
    )


def _refuse_state(body: _Body) -> None:
    kind = "invalid_request_error"
    if body.background and body.store is False:
        message = "background can only be used when `store` is true (parameter=background)"
        raise RequestRefusedError(400, message, "background")
    if body.background:
        message = (
            "This vLLM engine does not support `store=True` and therefore does not support the "
            "background mode. To enable these features, set the environment variable "
            "`VLLM_ENABLE_RESPONSES_API_STORE=1` when launching the vLLM server."
        )
        raise RequestRefusedError(400, message, "background", kind=kind)
    if body.previous_response_id is not None:
        message = f"Response with id '{body.previous_response_id}' not found."
        raise RequestRefusedError(404, message, "response_id", kind=kind)
    if body.prompt is not None:
        message = "prompt template is not supported (parameter=prompt)"
        raise RequestRefusedError(400, message, "prompt")


def _messages(body: _Body) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if body.instructions:
        messages.append({"role": "system", "content": body.instructions})
    if isinstance(body.input, str):
        return [*messages, {"role": "user", "content": body.input}]
    read = [_message(item) for item in body.input]
    return messages + [message for message in read if message is not None]


def _message(item: dict[str, Any]) -> dict[str, Any] | None:
    """Convert an item; None for reasoning, as chat templates leave out that of earlier answers."""
    kind = item.get("type", "message")
    if kind in _CALLS:
        return {"role": "assistant", "tool_calls": [item]}
    if kind in _OUTPUTS:
        return {"role": "tool", "content": item.get("output")}
    if kind == "reasoning":
        if item.get("encrypted_content"):
            message = "Encrypted content is not supported. (parameter=input)"
            raise RequestRefusedError(400, message, "input")
        return None
    if kind == "message":
        return {"role": item.get("role"), "content": item.get("content")}
    message = f"Unsupported input item type: {kind} (parameter=input)"
    raise RequestRefusedError(400, message, "input")


def _chat_tools(tool: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a tool's functions; none for kinds of tools that only other servers run."""
    kind = tool.get("type")
    if kind == "namespace":
        return [
            _function(_NAMESPACED.format(tool["name"], inner["name"]), inner.get("parameters"))
            for inner in tool.get("tools", [])
        ]
    if kind == "custom":
        if (tool.get("format") or {}).get("type") == "grammar":
            message = (
                "Custom tools with a grammar format are not supported; only free-form text custom "
                "tools are accepted. (parameter=tools)"
            )
            raise RequestRefusedError(400, message, "tools")
        return [_function(tool["name"], _ANY_TEXT)]
    if kind == "function":
        return [_function(tool["name"], tool.get("parameters"))]
    if kind not in _RUN_ELSEWHERE:
        message = f"1 validation error:\n  {{'type': 'literal_error', 'input': '{kind}'}}"
        raise MalformedRequestError(message, "body.tools.0.type")
    return []


def _function(name: str, parameters: dict[str, Any] | None) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters or {}}}


def _chat_choice(choice: str | dict[str, Any]) -> str | dict[str, Any]:
    if isinstance(choice, dict) and choice.get("type") in {"function", "custom"}:
        return {"type": "function", "function": {"name": choice["name"]}}
    return choice if isinstance(choice, str) else "auto"


def _response_format(text: dict[str, Any] | None) -> dict[str, Any] | None:
    """Convert `text.format` to chat's shape, where the schema is one level deeper."""
    wanted = (text or {}).get("format")
    if not wanted:
        return None
    return {"type": wanted.get("type"), "json_schema": {"schema": wanted.get("schema")}}


def _echo(body: _Body) -> dict[str, Any]:
    return {
        "instructions": body.instructions,
        "metadata": body.metadata,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "temperature": 1.0 if body.temperature is None else body.temperature,
        "tool_choice": body.tool_choice if body.tools or body.tool_choice != "auto" else "none",
        "tools": [_echoed_tool(tool) for tool in body.tools],
        "top_p": 1.0 if body.top_p is None else body.top_p,
        "max_tool_calls": body.max_tool_calls,
        "reasoning": _filled(body.reasoning, _REASONING),
        "service_tier": body.service_tier,
        "text": _filled(body.text, ("format", "verbosity")),
        "truncation": body.truncation,
        "user": body.user,
        "presence_penalty": body.presence_penalty or 0.0,
        "frequency_penalty": body.frequency_penalty or 0.0,
    }


def _echoed_tool(tool: dict[str, Any]) -> dict[str, Any]:
    return tool if tool.get("type") != "function" else {name: tool.get(name) for name in _TOOL}


def _filled(given: dict[str, Any] | None, names: tuple[str, ...]) -> dict[str, Any] | None:
    return None if given is None else {name: given.get(name) for name in names}
