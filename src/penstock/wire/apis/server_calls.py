"""Items of tool calls that run here: what clients see of them, and what prompts have. Pure.

A stored item is the public item and a private member with the call as the model wrote it, because a
later prompt must repeat an earlier one exactly: an engine finds only the same text in its cache.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

Item = dict[str, Any]

CODE_CALL: Final = "code_interpreter_call"
MCP_CALL: Final = "mcp_call"
SERVER_CALLS: Final = frozenset({CODE_CALL, MCP_CALL})
APPROVAL_REQUEST: Final = "mcp_approval_request"
APPROVAL_RESPONSE: Final = "mcp_approval_response"
# Items that are no part of a prompt: the tools are offered as functions, and a call that waits for
# its approval has no answer yet.
UNSEEN: Final = frozenset({"mcp_list_tools", APPROVAL_REQUEST})
# The function by which models run code: they know it by this name.
PYTHON: Final = "python"
CODE_OUTPUTS: Final = "code_interpreter_call.outputs"
_PRIVATE: Final = "penstock"
_NOT_KEPT: Final = "(What it printed was not kept.)"
_NAME_CHARACTERS_MAX: Final = 64


class ModelCall(msgspec.Struct, frozen=True):
    """A call as the model wrote it, and what it was told.

    Calls of one answer have the same `round`; -1 says that the answer is not known.
    """

    id: str
    name: str
    arguments: str
    told: str = ""
    round: int = -1


def remembering(item: Item, call: ModelCall) -> Item:
    """Return an item as it is stored."""
    return {**item, _PRIVATE: msgspec.to_builtins(call)}


def call_of(item: Item) -> ModelCall:
    """Return the call of an item, also of one that a client kept and sends back."""
    private = item.get(_PRIVATE)
    if private is not None:
        return msgspec.convert(private, ModelCall)
    id, name = str(item.get("id")), str(item.get("name"))
    if item.get("type") == CODE_CALL:
        arguments = msgspec.json.encode({"code": str(item.get("code") or "")}).decode()
        return ModelCall(id, PYTHON, arguments, _printed(item) or _NOT_KEPT)
    told = item.get("output") or item.get("error") or ""
    told = told if isinstance(told, str) else msgspec.json.encode(told).decode()
    function = f"{item.get('server_label')}__{name}"[:_NAME_CHARACTERS_MAX]
    return ModelCall(id, function, str(item.get("arguments") or "{}"), told)


def is_stored(item: Item) -> bool:
    """Return whether an item comes from the store, and not from a caller."""
    return _PRIVATE in item


def public_item(item: Item, *, has_outputs: bool = False) -> Item:
    """Return an item as clients get it; what code printed only if they ask for that."""
    if item.get("type") == CODE_CALL and not has_outputs:
        item = {**item, "outputs": None}
    return {name: value for name, value in item.items() if name != _PRIVATE}


def public_response(response: Mapping[str, Any], *, has_outputs: bool = False) -> Item:
    """Return a stored response as clients get it."""
    output = [public_item(item, has_outputs=has_outputs) for item in response["output"]]
    return {**response, "output": output}


def callers_items(items: list[Item]) -> list[Item]:
    """Return a caller's items without private members, which only stored items have.

    The bytes of a body do not show them: JSON may write any letter of a name as an escape.
    """
    return [_without(item) if _PRIVATE in item else item for item in items]


def _without(item: Item) -> Item:
    return {name: value for name, value in item.items() if name != _PRIVATE}


def _printed(item: Item) -> str:
    outputs = item.get("outputs")
    if not isinstance(outputs, list):
        return ""
    logs = (each.get("logs") for each in outputs if isinstance(each, dict))
    return "".join(log for log in logs if isinstance(log, str))
