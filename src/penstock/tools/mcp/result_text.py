"""Shapes what a tool answered, for the model and for the item that shows it. Pure."""

from typing import Any

import msgspec

from penstock.tools.mcp.shapes import McpContent, McpFailure, McpResult


def result_text(result: McpResult, bytes_max: int) -> str:
    """Return a result as text of at most `bytes_max`: its texts, else its structured value."""
    texts = [text for part in result.content if (text := _text_of(part)) is not None]
    if texts or result.structured is None:
        parts = [_described(part) for part in result.content]
        return capped_text("\n".join(parts), bytes_max)
    described = [_described(part) for part in result.content]
    # Indented or not, as the server wrote it: the model reads both.
    value = bytes(result.structured).decode(errors="replace")
    return capped_text("\n".join([value, *described]), bytes_max)


def call_error(failure: McpFailure | McpResult, bytes_max: int) -> dict[str, Any]:
    """Return the `error` of an `mcp_call` item: of a failure, or of a result that is an error."""
    if isinstance(failure, McpFailure):
        return {"type": str(failure.kind), "code": failure.code, "message": failure.message}
    content = [{"type": "text", "text": result_text(failure, bytes_max)}]
    return {"type": "mcp_tool_execution_error", "content": content}


def failure_text(failure: McpFailure) -> str:
    """Return what the model is told of a call that gave no result."""
    known = "" if failure.may_have_run else " The tool did not run."
    return (
        f"The tool could not be called ({failure.kind}, {failure.code}): {failure.message}.{known}"
    )


def capped_text(text: str, bytes_max: int) -> str:
    """Return a text cut to `bytes_max` bytes: beginning, end, and how much is left out."""
    data = text.encode(errors="replace")
    if len(data) <= bytes_max:
        return text
    # The mark is at its longest if everything is left out.
    room = bytes_max - len(_left_out(len(data)).encode())
    if room <= 0:
        return data[:bytes_max].decode(errors="ignore")
    head = data[: room - room // 2].decode(errors="ignore")
    tail = data[len(data) - room // 2 :].decode(errors="ignore")
    left_out = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}{_left_out(left_out)}{tail}"


def _left_out(count: int) -> str:
    return f"\n[… {count} bytes left out …]\n"


def _text_of(part: McpContent) -> str | None:
    if part.type == "text":
        return part.text
    if part.type == "resource" and part.resource is not None:
        return part.resource.text
    return None


def _described(part: McpContent) -> str:
    """Return a part's text, or a line that says what it is."""
    text = _text_of(part)
    if text is not None:
        return text
    if part.type == "resource" and part.resource is not None:
        size = _size(part.resource.blob or "")
        return f"[resource {part.resource.uri}: {part.resource.mime_type or 'data'}, {size} bytes]"
    if part.type == "resource_link":
        return f"[resource {part.uri}: {part.name}]"
    return f"[{part.type[:32]}: {part.mime_type or 'data'}, {_size(part.data)} bytes]"


def _size(base64_text: str) -> int:
    return len(base64_text) * 3 // 4


def read_arguments(text: str) -> dict[str, Any] | None:
    """Return a model's arguments as an object; None if they are none."""
    try:
        value = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
