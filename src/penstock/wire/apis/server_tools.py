"""Reads the tools of a Responses request that run here, and offers them as functions. Pure.

The engine knows functions only. `ServerFunction` joins the function that a model calls with the
tool that runs.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.wire.apis.server_calls import PYTHON
from penstock.wire.json_body import Fields, is_given

Item = dict[str, Any]


class ServerTool(StrEnum):
    """The types of tools that run here."""

    CODE_INTERPRETER = "code_interpreter"
    MCP = "mcp"


_TYPES: Final = frozenset(str(kind) for kind in ServerTool)
_MARKS: Final = tuple(f'"{kind}"'.encode() for kind in ServerTool)
# JSON may write any letter of a type so.
_ESCAPE: Final = rb"\u"
# Fields of a tool that hold a caller's secrets. No answer repeats them, and nothing stores them.
_SECRETS: Final = frozenset({"authorization", "headers"})
_FILE_IDS_MAX: Final = 50


class AutoContainer(msgspec.Struct, frozen=True):
    """Any container: the one that the conversation has, or a new one with these files."""

    type: Literal["auto"] = "auto"
    file_ids: list[str] | None = None
    memory_limit: str | None = None
    network_policy: dict[str, Any] | None = None


class CodeTool(msgspec.Struct, frozen=True):
    """The code interpreter that a request offers: in the container with this id, or in any."""

    container: str | AutoContainer = AutoContainer()


class ServerFunction(msgspec.Struct, frozen=True):
    """A function of the model that runs here. `label` and `tool` name an MCP server's tool."""

    name: str
    kind: ServerTool
    description: str
    parameters: Item
    label: str = ""
    tool: str = ""
    needs_approval: bool = False

    def as_chat(self) -> Item:
        """Return the function as engines get it; vLLM enforces a schema only if it is strict."""
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "strict": True,
        }
        return {"type": "function", "function": function}


class ServerTools(msgspec.Struct, frozen=True):
    """The tools of a request that run here; MCP servers as written, with their places."""

    code: CodeTool | None
    mcp: list[tuple[int, Raw]]


def may_have_server_tools(fields: Fields) -> bool:
    """Return whether a request may offer tools that run here, without decoding it."""
    raw = fields.get("tools")
    if raw is None:
        return False
    text = bytes(raw)
    return _ESCAPE in text or any(mark in text for mark in _MARKS)


def read_server_tools(fields: Fields) -> ServerTools | None:
    """Return the tools that run here; None if all are others."""
    if not is_given(fields, "tools"):
        return None
    tools = _tools(fields)
    code = [
        (at, each)
        for at, each in enumerate(tools)
        if each.get("type") == ServerTool.CODE_INTERPRETER
    ]
    mcp = [
        (at, Raw(msgspec.json.encode(each)))
        for at, each in enumerate(tools)
        if each.get("type") == ServerTool.MCP
    ]
    if not code and not mcp:
        return None
    if len(code) > 1:
        raise InvalidRequest("One code interpreter is enough.", param=f"tools.{code[1][0]}")
    return ServerTools(_code_tool(*code[0]) if code else None, mcp)


def callers_functions(fields: Fields) -> set[str]:
    """Return the names of a request's own functions."""
    if not is_given(fields, "tools"):
        return set()
    return {str(tool.get("name")) for tool in _tools(fields) if tool.get("type") == "function"}


def shown_tools(tools: Sequence[Item]) -> list[Item]:
    """Return a request's tools as its response repeats them, without the caller's secrets."""
    return [
        {name: value for name, value in tool.items() if name not in _SECRETS}
        if tool.get("type") in _TYPES
        else tool
        for tool in tools
    ]


def python_function(description: str, pattern: str = "") -> ServerFunction:
    """Return the function by which a model runs code; `pattern` is what its code must match."""
    code = {"type": "string"}
    if pattern:
        code["pattern"] = pattern
    parameters = {
        "type": "object",
        "properties": {"code": code},
        "required": ["code"],
        "additionalProperties": False,
    }
    return ServerFunction(PYTHON, ServerTool.CODE_INTERPRETER, description, parameters)


def code_in(arguments: str) -> str:
    """Return the code of a call. Some models write it bare instead of as a JSON object."""
    try:
        given = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return arguments
    code = given.get("code") if isinstance(given, dict) else None
    return code if isinstance(code, str) else arguments


def chosen(choice: Item, functions: Sequence[ServerFunction]) -> Item | str | None:
    """Return chat's `tool_choice` for a choice of a tool that runs here; None if it is another."""
    kind = choice.get("type")
    if kind not in _TYPES:
        return None
    named = [each for each in functions if _is_meant(choice, each)]
    if not named:
        raise InvalidRequest(f"No tool of type `{kind}` is offered so.", param="tool_choice")
    if len(named) > 1:
        return "required"
    return {"type": "function", "function": {"name": named[0].name}}


def allowed(tools: Sequence[Item], functions: Sequence[ServerFunction]) -> set[str]:
    """Return the names of functions that `allowed_tools` allows of these."""
    return {each.name for each in functions for tool in tools if _is_meant(tool, each)}


def _is_meant(named: Item, function: ServerFunction) -> bool:
    if named.get("type") != function.kind:
        return False
    if function.kind is ServerTool.CODE_INTERPRETER:
        return True
    is_server = named.get("server_label") == function.label
    return is_server and named.get("name") in (None, function.tool)


def _tools(fields: Fields) -> list[Item]:
    tools = msgspec.json.decode(fields["tools"])
    if not isinstance(tools, list) or not all(isinstance(each, dict) for each in tools):
        raise InvalidRequest("`tools` must be a list of objects.", param="tools")
    return tools


def _code_tool(at: int, tool: Item) -> CodeTool:
    param = f"tools.{at}.container"
    try:
        code = msgspec.convert(tool, CodeTool)
    except msgspec.ValidationError as wrong:
        raise InvalidRequest(f"A container is an id or an object: {wrong}.", param=param) from None
    container = code.container
    if isinstance(container, AutoContainer):
        if len(container.file_ids or ()) > _FILE_IDS_MAX:
            raise InvalidRequest(f"At most {_FILE_IDS_MAX} files.", param=f"{param}.file_ids")
        policy = container.network_policy
        if policy is not None and policy.get("type") != "disabled":
            raise InvalidRequest(
                "Containers have no network here.", param=f"{param}.network_policy"
            )
    return code
