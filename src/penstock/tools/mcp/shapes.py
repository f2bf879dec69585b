"""What the MCP client takes and gives: servers, secrets, tools, results and failures."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NoReturn

import msgspec
from msgspec import Raw

_MESSAGE_CHARS_MAX: Final = 1024


class McpServer(msgspec.Struct, frozen=True, kw_only=True):
    """One server, for one account. `is_operators`: configured here, so it may be a private one."""

    label: str
    url: str
    account: str
    is_operators: bool = False

    def __repr__(self) -> str:
        """Some servers take their key in the URL."""
        return f"McpServer({self.label!r})"


class McpSecrets:
    """What a caller sends to prove itself to a server. It cannot be printed, pickled or encoded."""

    __slots__ = ("_headers",)

    def __init__(self, authorization: str = "", headers: Mapping[str, str] | None = None) -> None:
        self._headers = dict(headers or {})
        if authorization:
            self._headers["authorization"] = f"Bearer {authorization}"

    def as_headers(self) -> dict[str, str]:
        """Return the headers to send. Only the client may ask."""
        return dict(self._headers)

    def __repr__(self) -> str:
        return "McpSecrets(hidden)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("secrets of tools are not stored")


class McpTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of a server. The two claims are the server's own hints."""

    name: str
    description: str = ""
    # A JSON object: the schema of the arguments.
    input_schema: Raw = Raw(b'{"type":"object"}')
    is_read_only: bool = False
    is_idempotent: bool = False


class McpResource(msgspec.Struct, frozen=True):
    """A resource inside a result."""

    uri: str = ""
    mime_type: str = msgspec.field(default="", name="mimeType")
    text: str | None = None
    blob: str | None = None


class McpContent(msgspec.Struct, frozen=True):
    """One part of a result: `text`, `image`, `audio`, `resource_link`, `resource`, or newer."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str = msgspec.field(default="", name="mimeType")
    uri: str = ""
    name: str = ""
    resource: McpResource | None = None


class McpResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool answered. `is_error`: the tool ran and says that it failed."""

    content: tuple[McpContent, ...] = ()
    structured: Raw | None = None
    is_error: bool = False


class FailureKind(StrEnum):
    """The types of errors that an `mcp_call` item shows."""

    PROTOCOL = "mcp_protocol_error"
    HTTP = "http_error"


class McpFailure(Exception):
    """A server gave no result. `code` is the protocol's, or the HTTP status.

    502 and 504 also stand for no answer at all and none in time. `may_have_run` is False if the
    tool surely did not run.
    """

    def __init__(
        self, kind: FailureKind, code: int, message: str, *, may_have_run: bool = True
    ) -> None:
        super().__init__(message[:_MESSAGE_CHARS_MAX])
        self.kind = kind
        self.code = code
        self.may_have_run = may_have_run

    @property
    def message(self) -> str:
        return str(self.args[0])


def protocol_failure(message: str, code: int = -32600) -> McpFailure:
    """Return the failure for a server that does not keep to the protocol."""
    return McpFailure(FailureKind.PROTOCOL, code, message)
