"""The settings of one MCP server that the operator offers."""

import re
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from penstock.errors import InvalidRequest
from penstock.outbound.target import read_target
from penstock.tools.mcp_headers import headers_problem

LABEL: Final = "^[A-Za-z][A-Za-z0-9_-]{0,63}$"
_LABEL: Final = re.compile(LABEL)


class ApprovalLists(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Tools by name. One that is in neither list, or in both, needs approval."""

    always: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    def demands(self, tool: str) -> bool:
        """Return whether a call of this tool needs approval."""
        return tool in self.always or tool not in self.never


class McpServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One MCP server that callers may use by its label."""

    # The name by which requests choose it: `server_label`.
    label: Annotated[str, Meta(pattern=LABEL)]
    # Where it answers streamable HTTP. It may be in a private network, and plain http.
    url: str
    # Headers for it, such as its key. Better in `headers_file`. Never printed.
    headers: dict[str, str] = {}
    # A file with lines `Name: value`, read anew for each connection.
    headers_file: str = ""
    # The ids of the accounts that may use it; none = all.
    accounts: tuple[str, ...] = ()
    # The tools that are offered; none = all of the server's.
    allowed_tools: tuple[str, ...] = ()
    # Which calls a person must approve whatever the caller says: "always", "never" (as the caller
    # says), or `{always = […], never = […]}`.
    require_approval: Literal["always", "never"] | ApprovalLists = "never"

    def __post_init__(self) -> None:
        try:
            read_target(self.url)
        except InvalidRequest as wrong:
            raise ValueError(f"url: {wrong.message}") from None
        if problem := headers_problem(self.headers):
            raise ValueError(f"headers: {problem}")

    def __repr__(self) -> str:
        """Headers are secrets, and a URL may hold one."""
        return f"McpServerSettings({self.label!r})"


def is_label(text: str) -> bool:
    return _LABEL.match(text) is not None
