"""Checks headers for MCP servers, which operators and callers give. Reads header files."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

HEADERS_MAX: Final = 32
_HEADER_BYTES_MAX: Final = 8192
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}")
# The client writes these itself; a second one would change where or how a request is read.
_OURS: Final = frozenset({
    "accept", "accept-encoding", "connection", "content-encoding", "content-length", "content-type",
    "expect", "host", "keep-alive", "last-event-id", "proxy-authorization", "proxy-connection",
    "te", "trailer", "transfer-encoding", "upgrade", "user-agent",
})  # fmt: skip


def headers_problem(headers: Mapping[str, str]) -> str:
    """Return what is wrong with these headers, without their values; "" if they may be sent."""
    if len(headers) > HEADERS_MAX:
        return f"there are more than {HEADERS_MAX} headers"
    if len({name.lower() for name in headers}) < len(headers):
        return "a header is there twice"
    return next(filter(None, (_problem(*each) for each in headers.items())), "")


def _problem(name: str, value: str) -> str:
    if not _NAME.fullmatch(name):
        return "a header's name is not one"
    if name.lower() in _OURS or name.lower().startswith("mcp-"):
        return f"`{name}` is a header that the client itself sends"
    if len(value) > _HEADER_BYTES_MAX:
        return f"the value of `{name}` is longer than {_HEADER_BYTES_MAX} characters"
    if not value.isascii() or not value.isprintable():
        return f"the value of `{name}` is not one line of printable ASCII"
    return ""


def read_header_file(path: Path) -> dict[str, str]:
    """Read lines `Name: value`. OSError or ValueError state the problem, without any value."""
    headers: dict[str, str] = {}
    for line in path.read_text("ascii").splitlines():
        if line.strip() and not line.startswith("#"):
            name, colon, value = line.partition(":")
            if not colon:
                raise ValueError(f"{path}: a line is not `Name: value`")
            headers[name.strip()] = value.strip()
    if problem := headers_problem(headers):
        raise ValueError(f"{path}: {problem}")
    return headers
