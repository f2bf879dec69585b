"""Drops tools of Responses that nothing here can run from what the engine gets.

Agents offer them unasked: Codex always sends `web_search`. vLLM ignores it with most models and
refuses the whole request with gpt-oss (0.32), as it does with namespaces, of which Codex sends
some beside its functions. Functions, custom tools and, except for gpt-oss, namespaces are kept.
"""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.wire.json_body import DEPTH_MAX, Fields, check_count, refuse_deep

# What vLLM passes to the model, and what it runs itself where it is started with a tool server.
_KEPT: Final = frozenset({
    "function", "custom", "namespace", "mcp", "code_interpreter", "web_search_preview",
})  # fmt: skip


class _Tool(msgspec.Struct):
    type: str = ""


_tools_decoder = msgspec.json.Decoder(list[_Tool] | None)
_raw_decoder = msgspec.json.Decoder(list[Raw])


def drop_namespaces(fields: Fields) -> None:
    """Drop namespaces, for gpt-oss: its agents lose those tools, but can work."""
    _keep(fields, _KEPT - {"namespace"})


def drop_hosted_tools(fields: Fields) -> None:
    """Drop hosted tools from `tools`. One without a type is kept: the engine reports the error."""
    _keep(fields, _KEPT)


def _keep(fields: Fields, types: frozenset[str]) -> None:
    raw = fields.get("tools")
    if raw is None:
        return
    refuse_deep(raw, levels_max=DEPTH_MAX - 1, param="tools")
    try:
        tools = _tools_decoder.decode(raw) or []
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"`tools`: {bad}", param="tools") from None
    check_count(len(tools), "tools")
    is_kept = [not tool.type or tool.type in types for tool in tools]
    if all(is_kept):
        return
    kept = [tool for tool, keep in zip(_raw_decoder.decode(raw), is_kept, strict=True) if keep]
    if kept:
        fields["tools"] = Raw(msgspec.json.encode(kept))
    else:
        del fields["tools"]
