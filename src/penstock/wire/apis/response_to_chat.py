"""Turns a request of the Responses API into the chat request that an engine gets. Pure.

Only fields that are named here reach the engine: what has no meaning for chat stays behind.
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest, MissingToolOutput
from penstock.wire.apis.response_items import Item, missing_outputs, render
from penstock.wire.apis.server_tools import ServerFunction, ServerTool, allowed, chosen
from penstock.wire.json_body import Fields, is_given

_COPIED: Final = frozenset(
    {
        "model", "stream", "temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty",
        "frequency_penalty", "parallel_tool_calls", "prompt_cache_key", "metadata", "user",
        "safety_identifier", "service_tier", "options", "chat_template_kwargs",
    }
)  # fmt: skip
_FUNCTION_FIELDS: Final = ("name", "description", "parameters", "strict")
_SERVER_TOOLS: Final = frozenset(ServerTool)
_LOGPROBS: Final = "message.output_text.logprobs"


def to_chat(
    fields: Fields,
    earlier: Sequence[Sequence[Item]],
    items: Sequence[Item],
    functions: Sequence[ServerFunction] | None = None,
) -> Fields:
    """Return the chat request: `earlier` has the groups of items before the new ones.

    `functions` stand for the request's tools that run here; None if there are no such tools.
    """
    groups = [*earlier, items]
    missing = missing_outputs(groups)
    if missing:
        raise MissingToolOutput(
            f"No `function_call_output` answers the function call {missing[0]}.", param="input"
        )
    messages = render(groups)
    if is_given(fields, "instructions"):
        messages.insert(0, {"role": "system", "content": _decoded(fields, "instructions")})
    chat = {name: value for name, value in fields.items() if name in _COPIED}
    chat["messages"] = _raw(messages)
    if is_given(fields, "max_output_tokens"):
        chat["max_completion_tokens"] = fields["max_output_tokens"]
    if is_given(fields, "reasoning"):
        _add(chat, "reasoning_effort", _object(fields, "reasoning").get("effort"))
    if is_given(fields, "text"):
        _add(chat, "response_format", _response_format(_object(fields, "text")))
    _add_tools(chat, fields, functions)
    if is_given(fields, "include") and _LOGPROBS in _decoded(fields, "include"):
        chat["logprobs"] = _raw(True)
        if is_given(fields, "top_logprobs"):
            chat["top_logprobs"] = fields["top_logprobs"]
    return chat


def _add_tools(chat: Fields, fields: Fields, functions: Sequence[ServerFunction] | None) -> None:
    kinds = frozenset() if functions is None else _SERVER_TOOLS
    functions = functions or ()
    own = [
        _function(tool, at)
        for at, tool in enumerate(_list(fields, "tools"))
        if tool.get("type") not in kinds
    ]
    tools = [*own, *(function.as_chat() for function in functions)]
    choice: Any = _decoded(fields, "tool_choice") if is_given(fields, "tool_choice") else None
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        wanted = _allowed_tools(choice)
        names = {_name(tool) for tool in wanted if tool.get("type") not in _SERVER_TOOLS}
        names |= allowed(wanted, functions)
        tools = [tool for tool in tools if _name(tool["function"]) in names]
        choice = choice.get("mode") or "auto"
    elif isinstance(choice, dict):
        choice = _named_choice(choice, functions)
    if tools:
        chat["tools"] = _raw(tools)
        _add(chat, "tool_choice", choice)
    elif choice == "required":
        raise InvalidRequest("There is no tool that could be required.", param="tool_choice")


def _allowed_tools(choice: Item) -> list[Item]:
    wanted = choice.get("tools") or []
    if not isinstance(wanted, list) or not all(
        isinstance(tool, dict) and isinstance(tool.get("type", ""), str) for tool in wanted
    ):
        raise InvalidRequest("This must be a list of tools.", param="tool_choice.tools")
    return wanted


def _name(tool: Item) -> str:
    """Return a tool's name; "" if it has none, of which the engine tells."""
    name = tool.get("name")
    return name if isinstance(name, str) else ""


def _named_choice(choice: Item, functions: Sequence[ServerFunction]) -> Item | str:
    kind = choice.get("type")
    if kind == "function":
        return {"type": "function", "function": {"name": choice.get("name")}}
    found = chosen(choice, functions) if functions and isinstance(kind, str) else None
    if found is None:
        raise InvalidRequest(f"A choice of `{kind}` is not served here.", param="tool_choice")
    return found


def _function(tool: Item, at: int) -> Item:
    if tool.get("type") != "function":
        kind = tool.get("type")
        raise InvalidRequest(f"Tools of type `{kind}` are not served here.", param=f"tools.{at}")
    given = {name: tool[name] for name in _FUNCTION_FIELDS if tool.get(name) is not None}
    return {"type": "function", "function": given}


def _response_format(text: Item) -> Item | None:
    wanted = text.get("format") or {}
    kind = wanted.get("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        return {"type": "json_object"}
    if kind == "json_schema":
        schema = {name: value for name, value in wanted.items() if name != "type"}
        return {"type": "json_schema", "json_schema": schema}
    raise InvalidRequest(f"A format of type `{kind}` is not served here.", param="text.format")


def _add(chat: Fields, name: str, value: object) -> None:
    if value is not None:
        chat[name] = _raw(value)


def _raw(value: object) -> Raw:
    return Raw(msgspec.json.encode(value))


def _decoded(fields: Fields, name: str) -> Any:  # noqa: ANN401 - any JSON
    return msgspec.json.decode(fields[name])


def _object(fields: Fields, name: str) -> Item:
    found = _decoded(fields, name)
    if not isinstance(found, dict):
        raise InvalidRequest(f"`{name}` must be an object.", param=name)
    return found


def _list(fields: Fields, name: str) -> list[Item]:
    if not is_given(fields, name):
        return []
    found = _decoded(fields, name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise InvalidRequest(f"`{name}` must be a list of objects.", param=name)
    return found
