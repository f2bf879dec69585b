"""Repeats arguments in headers, where a tool's schema says so by `x-mcp-header`. Pure.

Servers of the stateless revision refuse a call without these headers.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from penstock.tools.mcp.messages import header_value

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")
_KEY: Final = "x-mcp-header"
_HEADERS_MAX: Final = 32
_VALUE_CHARS_MAX: Final = 4096


def param_headers(schema: Raw, arguments: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the headers for a call. A value that no header can hold is left out."""
    if _KEY.encode() not in bytes(schema):
        return []
    found: dict[str, str] = {}
    for token, value in _annotated(msgspec.json.decode(schema), arguments):
        text = _text_of(value)
        if text is not None and len(found) < _HEADERS_MAX:
            found[f"mcp-param-{token.lower()}"] = header_value(text)
    return list(found.items())


def _annotated(schema: object, value: object) -> Iterator[tuple[str, object]]:
    """Yield annotated properties and their arguments, below `properties` only."""
    if not isinstance(schema, dict) or not isinstance(value, dict):
        return
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return
    for name, below in properties.items():
        if not isinstance(below, dict) or name not in value:
            continue
        token = below.get(_KEY)
        if isinstance(token, str) and _TOKEN.fullmatch(token):
            yield token, value[name]
        yield from _annotated(below, value[name])


def _text_of(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) < 2**64:
        return str(value)
    if isinstance(value, str) and len(value) <= _VALUE_CHARS_MAX:
        return value
    return None
