"""JSON-RPC as MCP uses it: what we send, and what servers answer. Pure."""

import base64
import re
from functools import cache
from importlib.metadata import version
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw

from penstock import DISTRIBUTION
from penstock.errors import InvalidRequest
from penstock.tools.mcp.shapes import McpContent, McpResult, McpTool, protocol_failure
from penstock.wire.json_body import DEPTH_MAX, refuse_deep

STATELESS_VERSION: Final = "2026-07-28"
HANDSHAKE_VERSION: Final = "2025-11-25"
HANDSHAKE_VERSIONS: Final = frozenset({HANDSHAKE_VERSION, "2025-06-18", "2025-03-26", "2024-11-05"})
METHOD_NOT_FOUND: Final = -32601
UNSUPPORTED_VERSION: Final = -32022
_META: Final = "io.modelcontextprotocol/"
_TOOL_NAME_CHARS_MAX: Final = 128
_PLAIN_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_WRAPPED: Final = re.compile(r"=\?base64\?.*\?=")
T = TypeVar("T")


class RpcError(msgspec.Struct, frozen=True):
    """An error as the server states it."""

    code: int = 0
    message: str = ""


class RpcMessage(msgspec.Struct, frozen=True):
    """A response, or a request or notification of the server's own, which has a method."""

    id: int | str | None = None
    method: str = ""
    result: Raw = Raw()
    error: RpcError | None = None


class Discovered(msgspec.Struct, frozen=True):
    """What a server of the stateless revision says of itself."""

    versions: list[str] = msgspec.field(name="supportedVersions")


class Initialized(msgspec.Struct, frozen=True):
    """What a server with sessions answers to the handshake."""

    version: str = msgspec.field(name="protocolVersion")


class ToolPage(msgspec.Struct, frozen=True):
    """One page of a server's tools."""

    tools: list[Raw]
    cursor: str | None = msgspec.field(default=None, name="nextCursor")


class _Hints(msgspec.Struct, frozen=True):
    read_only: bool | None = msgspec.field(default=None, name="readOnlyHint")
    idempotent: bool | None = msgspec.field(default=None, name="idempotentHint")


class _Tool(msgspec.Struct, frozen=True):
    name: str
    schema: Raw = msgspec.field(name="inputSchema")
    description: str | None = None
    annotations: _Hints | None = None


class _Result(msgspec.Struct, frozen=True):
    content: list[McpContent] = []
    structured: Raw = msgspec.field(default=Raw(), name="structuredContent")
    is_error: bool = msgspec.field(default=False, name="isError")
    kind: str = msgspec.field(default="complete", name="resultType")


@cache
def client_info() -> dict[str, str]:
    """Return what servers are told of this client."""
    return {"name": "penstock", "version": version(DISTRIBUTION)}


def stateless_meta() -> dict[str, Any]:
    """Return the `_meta` of every request of the stateless revision."""
    return {
        f"{_META}protocolVersion": STATELESS_VERSION,
        f"{_META}clientInfo": client_info(),
        f"{_META}clientCapabilities": {},
    }


def handshake() -> dict[str, Any]:
    """Return the parameters of `initialize`."""
    return {
        "protocolVersion": HANDSHAKE_VERSION,
        "capabilities": {},
        "clientInfo": client_info(),
    }


def decode(data: bytes | Raw, kind: type[T]) -> T:
    """Decode what a server sent; McpFailure if it is something else."""
    try:
        refuse_deep(data, levels_max=DEPTH_MAX, param="")
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, InvalidRequest, RecursionError, ValueError):
        raise protocol_failure("the server's answer is not what the protocol says") from None


def read_tool(raw: Raw, bytes_max: int) -> McpTool | None:
    """Return a tool; None for one that cannot be offered: no object as schema, or too large."""
    try:
        tool = msgspec.json.decode(raw, type=_Tool)
    except (msgspec.DecodeError, ValueError):
        return None
    description, schema = tool.description or "", bytes(tool.schema).strip()
    is_named = 0 < len(tool.name) <= _TOOL_NAME_CHARS_MAX and tool.name.isprintable()
    is_small = len(schema) <= bytes_max and len(description.encode()) <= bytes_max
    if not is_named or not is_small or not schema.startswith(b"{"):
        return None
    hints = tool.annotations or _Hints()
    return McpTool(
        name=tool.name,
        description=description,
        input_schema=Raw(schema),
        is_read_only=bool(hints.read_only),
        is_idempotent=bool(hints.idempotent),
    )


def read_result(raw: Raw) -> McpResult:
    """Return a tool's result; McpFailure if it is none, such as a question to a person."""
    result = decode(raw, _Result)
    if result.kind != "complete":
        raise protocol_failure("the tool asks for input from a person, which is not supported")
    structured = result.structured if bytes(result.structured) not in {b"", b"null"} else None
    return McpResult(content=tuple(result.content), structured=structured, is_error=result.is_error)


def header_value(text: str) -> str:
    """Return a text as the protocol writes it into a header: as it is if plain, else base64."""
    if _PLAIN_VALUE.fullmatch(text) and not _WRAPPED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
