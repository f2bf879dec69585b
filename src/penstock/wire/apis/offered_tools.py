"""Reads the names of the tools that a request offers or demands, in each API, and takes some out.

What is left stays as it was written, byte for byte.
"""

from typing import Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from penstock.records.tool_terms import ToolTerms, mcp_name
from penstock.wire.json_body import Fields, is_given

TOOL_LISTS: Final = ("tools", "functions")
CHOICES: Final = ("tool_choice", "function_call")
# What only means something beside tools.
_BESIDE_TOOLS: Final = (*CHOICES, "parallel_tool_calls")
# Choices that demand a call, in all APIs.
_DEMANDS: Final = ("required", "any")
_NAMESPACE: Final = "namespace"
_MCP: Final = "mcp"
_MCP_TOOLSET: Final = "mcp_toolset"
_ALL: Final = "*"
# Choices that name no tool. `none`, `auto` and `any` are types in Messages.
_NAMELESS: Final = ("auto", "none", "tool", "allowed_tools", *_DEMANDS)
# What decoding raises for values that are not what they should be, or not text.
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_raws = msgspec.json.Decoder(list[Raw])


class _Named(msgspec.Struct):
    name: Any = None


class _Tool(msgspec.Struct):
    type: Any = None
    name: Any = None
    function: Any = None
    custom: Any = None
    server_label: Any = None
    mcp_server_name: Any = None
    allowed_tools: Any = None
    tools: Raw | UnsetType = UNSET


_tool = msgspec.json.Decoder(_Tool)


class JudgedTools(NamedTuple):
    """The tools of a list that may be offered, and the names of the others."""

    left: list[Raw]
    forbidden: list[str]


def judge_list(raw: Raw, terms: ToolTerms) -> JudgedTools:
    """Judge each tool of a list; one that cannot be read is left to the reader of its API."""
    left: list[Raw] = []
    forbidden: list[str] = []
    for entry in _entries(raw):
        kept, names = _judged(entry, terms)
        forbidden += names
        if kept is not None:
            left.append(kept)
    return JudgedTools(left, forbidden)


def take_tools_out(fields: Fields, name: str, left: list[Raw]) -> None:
    """Write the tools that are left; without any, engines refuse what belongs to tools."""
    if left:
        fields[name] = Raw(b"[%s]" % b",".join(map(bytes, left)))
        return
    del fields[name]
    if not any(is_given(fields, other) for other in TOOL_LISTS):
        for beside in _BESIDE_TOOLS:
            fields.pop(beside, None)


def demanded(fields: Fields) -> list[str]:
    """Return the names that `tool_choice` demands: the one tool, or all that it allows."""
    found: list[str] = []
    for name in CHOICES:
        choice = _decoded(fields, name)
        if isinstance(choice, dict):
            found += _names_in(choice)
    return found


def demands_any(fields: Fields) -> bool:
    """Return whether the answer must call a tool, whichever."""
    choice = _decoded(fields, CHOICES[0])
    if isinstance(choice, dict):
        choice = choice.get("type")
    return choice in _DEMANDS


def _names_in(choice: dict[str, Any]) -> list[str]:
    found = _names_of_choice(choice)
    for lists in (choice, choice.get("allowed_tools")):
        allowed = lists.get("tools") if isinstance(lists, dict) else None
        for each in allowed if isinstance(allowed, list) else ():
            found += _names_of_choice(each) if isinstance(each, dict) else []
    return found


def _names_of_choice(choice: dict[str, Any]) -> list[str]:
    kind, server, name = (choice.get(key) for key in ("type", "server_label", "name"))
    if kind == _MCP and isinstance(server, str):
        return [mcp_name(server, name)] if isinstance(name, str) else []
    own = _own_names(name, choice.get("function"), choice.get("custom"))
    return own or ([kind] if isinstance(kind, str) and kind not in _NAMELESS else [])


def _judged(entry: Raw, terms: ToolTerms) -> tuple[Raw | None, list[str]]:
    """Return what is left of one entry, and the names in it that are forbidden."""
    try:
        tool = _tool.decode(entry)
    except _UNREADABLE:
        return entry, []
    if tool.type == _NAMESPACE and tool.tools is not UNSET and isinstance(tool.name, str):
        return _judged_namespace(entry, tool.name, tool.tools, terms)
    names = _own_names(tool.name, tool.function, tool.custom)
    server = {_MCP: tool.server_label, _MCP_TOOLSET: tool.mcp_server_name}.get(str(tool.type))
    if not names and isinstance(server, str):
        is_kept = _is_server_left(server, tool.allowed_tools, terms)
        return (entry, []) if is_kept else (None, [mcp_name(server, _ALL)])
    names = names or [tool.type if isinstance(tool.type, str) else ""]
    forbidden = [name for name in names if not terms.allows(name)]
    return (None, forbidden) if forbidden else (entry, [])


def _own_names(name: object, *inner: object) -> list[str]:
    """Return all names of a tool: which one counts differs between APIs and engines."""
    named = [name, *(each.get("name") for each in inner if isinstance(each, dict))]
    return list(dict.fromkeys(each for each in named if each and isinstance(each, str)))


def _is_server_left(server: str, allowed: object, terms: ToolTerms) -> bool:
    """Return whether some tool of an MCP server may be called."""
    names = allowed.get("tool_names") if isinstance(allowed, dict) else allowed
    if isinstance(names, list) and names:
        return any(terms.allows(mcp_name(server, str(name))) for name in names)
    return not terms.rules.forbids_all(mcp_name(server, _ALL))


def _judged_namespace(
    entry: Raw, namespace: str, tools: Raw, terms: ToolTerms
) -> tuple[Raw | None, list[str]]:
    left, forbidden = [], []
    for inner in _entries(tools):
        names = [f"{namespace}__{name}" for name in _names_of_entry(inner)]
        refused = [name for name in names if not terms.allows(name)]
        if refused:
            forbidden += refused
        else:
            left.append(inner)
    if not forbidden:
        return entry, []
    if not left:
        return None, forbidden
    fields = msgspec.json.decode(entry, type=Fields)
    fields["tools"] = Raw(b"[%s]" % b",".join(map(bytes, left)))
    return Raw(msgspec.json.encode(fields)), forbidden


def _names_of_entry(entry: Raw) -> list[str]:
    try:
        tool = _tool.decode(entry)
    except _UNREADABLE:
        return []
    return _own_names(tool.name, tool.function, tool.custom)


def _entries(raw: Raw) -> list[Raw]:
    try:
        return _raws.decode(raw)
    except _UNREADABLE:
        return []


def _decoded(fields: Fields, name: str) -> Any:  # noqa: ANN401 - any JSON
    if name not in fields:
        return None
    try:
        return msgspec.json.decode(fields[name])
    except _UNREADABLE:
        return None
