"""Offers the tools of MCP servers to a model, as functions, and finds them again by name. Pure."""

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from penstock.tools.mcp.shapes import McpTool
from penstock.tools.mcp.tool_entry import McpChoice

NAME_CHARS_MAX: Final = 64
_DIGEST_CHARS: Final = 16
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool as the model sees it: `function` is its name there."""

    function: str
    choice: McpChoice
    tool: McpTool
    needs_approval: bool


class McpOffer:
    """The tools of a request's servers, sorted by function, so that prompts stay the same."""

    def __init__(self, tools: Sequence[OfferedTool]) -> None:
        self.tools = tuple(sorted(tools, key=lambda each: each.function))
        self._by_function = {each.function: each for each in tools}

    def find(self, function: str) -> OfferedTool | None:
        """Return the tool that a model calls by this name; None if none was offered by it."""
        return self._by_function.get(function)


def offer_tools(
    listed: Sequence[tuple[McpChoice, Sequence[McpTool]]], taken: Collection[str] = ()
) -> McpOffer:
    """Offer what both allow-lists let pass. `taken` are the names of the caller's own functions.

    A name is `label__tool`; where engines would not take it, or another tool has the same, it
    ends with a digest. Tools that still share a name are left out, so none stands for another.
    """
    pairs = [(choice, tool) for choice, tools in listed for tool in tools if choice.offers(tool)]
    plain = [f"{choice.server.label}__{tool.name}" for choice, tool in pairs]
    fitting = [_fitting(name) for name in plain]
    shared = Counter(fitting)
    names = [
        fit if fit == name and shared[fit] == 1 and fit not in taken else _with_digest(*pair)
        for fit, name, pair in zip(fitting, plain, pairs, strict=True)
    ]
    counts = Counter(names)
    return McpOffer(
        [
            OfferedTool(
                function=name,
                choice=choice,
                tool=tool,
                needs_approval=choice.needs_approval(tool),
            )
            for name, (choice, tool) in zip(names, pairs, strict=True)
            if counts[name] == 1 and name not in taken
        ]
    )


def _fitting(name: str) -> str:
    return _OTHER.sub("_", name)[:NAME_CHARS_MAX]


def _with_digest(choice: McpChoice, tool: McpTool) -> str:
    label = choice.server.label
    digest = hashlib.sha256(f"{label}\0{tool.name}".encode()).hexdigest()[:_DIGEST_CHARS]
    start = _fitting(f"{label}__{tool.name}")[: NAME_CHARS_MAX - _DIGEST_CHARS - 1]
    return f"{start}_{digest}"
