"""One JSON-RPC message to a server, and its answer: a JSON body, or a stream of events.

It answers what a server asks meanwhile: a ping, and a refusal for anything else.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from penstock.outbound import Caller, CallFailed, Guard, HttpReply, OutboundCall
from penstock.tools.mcp.event_lines import EventLines
from penstock.tools.mcp.messages import METHOD_NOT_FOUND, RpcError, RpcMessage, decode
from penstock.tools.mcp.shapes import (
    FailureKind,
    McpFailure,
    McpServer,
    protocol_failure,
)
from penstock.tools.settings import ToolsSettings

# Addresses that operators configure may be anywhere but at metadata servers.
_OPERATORS: Final = Guard(["0.0.0.0/0", "::/0"])
_CALLERS: Final = Guard()
_NO_ANSWER: Final = 502
_TOO_LATE: Final = 504
_SENT: Final = (
    ("accept", "application/json, text/event-stream"),
    ("accept-encoding", "identity"),
    ("content-type", "application/json"),
    ("user-agent", "penstock-mcp/1"),
)


class McpReply(msgspec.Struct, frozen=True, kw_only=True):
    """A server's answer to one request: a result or an error, of this HTTP status."""

    status: int
    result: Raw = Raw()
    error: RpcError | None = None
    session: str = ""

    def checked(self) -> Raw:
        """Return the result; McpFailure if there is none."""
        if self.error is not None:
            raise McpFailure(FailureKind.PROTOCOL, self.error.code, self.error.message)
        if self.status >= 300:
            raise _http_failure(self.status)
        return self.result


class McpLink:
    """Sends messages to one server. `secrets` are headers, of the caller's and the operator's."""

    def __init__(
        self,
        server: McpServer,
        secrets: Mapping[str, str],
        *,
        caller: Caller,
        settings: ToolsSettings,
    ) -> None:
        self._server = server
        self._secrets = secrets
        self._caller = caller
        self._settings = settings
        self._asked = 0

    async def ask(
        self, method: str, params: dict[str, Any], headers: Mapping[str, str]
    ) -> McpReply:
        """Send a request and wait for its answer. McpFailure if there is none."""
        self._asked += 1
        asked = self._asked
        message = {"jsonrpc": "2.0", "id": asked, "method": method, "params": params}
        try:
            async with self._caller.open(self._call(message, headers)) as answer:
                return await self._read(answer, asked, headers)
        except CallFailed as failed:
            code = _TOO_LATE if failed.is_late else _NO_ANSWER
            problem = f"MCP server `{self._server.label}`: {failed}"
            raise McpFailure(FailureKind.HTTP, code, problem, may_have_run=failed.is_sent) from None

    async def tell(self, message: dict[str, Any], headers: Mapping[str, str]) -> None:
        """Send a notification or a response. Whether the server took it does not matter."""
        call = self._call({"jsonrpc": "2.0", **message}, headers)
        try:
            async with self._caller.open(call):
                pass
        except CallFailed:
            return

    async def end(self, headers: Mapping[str, str]) -> None:
        """Tell the server that a session is over."""
        call = msgspec.structs.replace(self._call({}, headers), method="DELETE", body=b"")
        try:
            async with self._caller.open(call):
                pass
        except CallFailed:
            return

    def _call(self, message: dict[str, Any], headers: Mapping[str, str]) -> OutboundCall:
        return OutboundCall(
            account=self._server.account,
            url=self._server.url,
            guard=_OPERATORS if self._server.is_operators else _CALLERS,
            headers=[*_SENT, *self._secrets.items(), *headers.items()],
            body=msgspec.json.encode(message),
        )

    async def _read(self, answer: HttpReply, asked: int, headers: Mapping[str, str]) -> McpReply:
        kind = _kind(answer)
        session = answer.headers.get("mcp-session-id", "")
        if answer.status >= 300:
            return McpReply(status=answer.status, error=await _error_in(answer, kind))
        if kind == "json":
            message = decode(await answer.body(), RpcMessage)
            if message.id != asked:
                raise protocol_failure("the server answers another request than this one")
        elif kind == "events":
            message = await self._awaited(answer, asked, headers)
        else:
            raise protocol_failure(f"the server answered {answer.status} without a message")
        if message.error is None and not bytes(message.result):
            raise protocol_failure("the server's answer has neither a result nor an error")
        return McpReply(
            status=answer.status, result=message.result, error=message.error, session=session
        )

    async def _awaited(
        self, answer: HttpReply, asked: int, headers: Mapping[str, str]
    ) -> RpcMessage:
        """Return the answer from among the messages of a stream; notifications are dropped."""
        lines = EventLines(self._settings.mcp_event_bytes_max)
        left = self._settings.mcp_events_max
        async for piece in answer.pieces():
            for data in lines.feed(piece):
                message = decode(data, RpcMessage)
                left -= 1
                if left < 0:
                    raise protocol_failure("the server sends too many messages")
                if message.method and message.id is not None:
                    await self.tell(_response_to(message), headers)
                elif not message.method and message.id == asked:
                    return message
        raise protocol_failure("the server's stream ended without an answer")


def _kind(answer: HttpReply) -> Literal["json", "events", ""]:
    media = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media == "application/json":
        return "json"
    return "events" if media == "text/event-stream" else ""


async def _error_in(answer: HttpReply, kind: str) -> RpcError | None:
    """Return the protocol's error in an answer with an error's status, if there is one."""
    if kind != "json":
        return None
    try:
        return decode(await answer.body(), RpcMessage).error
    except (McpFailure, CallFailed):
        return None


def _response_to(message: RpcMessage) -> dict[str, Any]:
    """Answer a server's own request: nobody here can be asked, and no model is lent."""
    if message.method == "ping":
        return {"id": message.id, "result": {}}
    error = {"code": METHOD_NOT_FOUND, "message": "This client does not offer that."}
    return {"id": message.id, "error": error}


def _http_failure(status: int) -> McpFailure:
    if status < 400:
        return McpFailure(FailureKind.HTTP, status, "the server redirects, which is not followed")
    return McpFailure(FailureKind.HTTP, status, f"the server answered {status}")
