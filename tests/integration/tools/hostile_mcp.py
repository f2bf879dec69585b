"""An imitation of an MCP server on 127.0.0.1 that does wrong as a test says, and counts."""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from penstock.clock import SystemClock
from penstock.outbound import Caller
from penstock.outbound.names import Resolver
from penstock.tools.mcp import McpServer, McpServers
from penstock.tools.mcp_settings import McpServerSettings
from penstock.tools.settings import ToolsSettings

Request = dict[str, Any]
Act = Callable[[Request, asyncio.StreamWriter], Awaitable[bool]]
TOOLS = [{"name": "echo", "inputSchema": {"type": "object"}}]


class HostileMcp:
    """Speaks the era with sessions. `act` may answer instead: then it returns True."""

    def __init__(self) -> None:
        self.port = 0
        self.counts: Counter[str] = Counter()
        self.requests: list[Request] = []
        self.headers: list[dict[str, str]] = []
        self.sessions: set[str] = set()
        self.act: Act | None = None
        self._handlers: set[asyncio.Task[Any] | None] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._handlers.add(asyncio.current_task())
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers["content-length"]))
            request = json.loads(body) if body else {"method": head[0].split()[0]}
            self.counts[request.get("method", "reply")] += 1
            self.requests.append(request)
            self.headers.append(headers)
            if self.act is None or not await self.act(request, writer):
                writer.write(self._answer(request, headers))
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._handlers.discard(asyncio.current_task())
            writer.close()

    async def end(self) -> None:
        """End what is still being answered."""
        handlers = [each for each in self._handlers if each is not None]
        for each in handlers:
            each.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)

    def _answer(self, request: Request, headers: dict[str, str]) -> bytes:
        method = request.get("method")
        if method == "server/discover":
            return http(b"", status="404 Not Found")
        if method == "initialize":
            session = f"session-{self.counts['initialize']}"
            self.sessions.add(session)
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
            return rpc(request, result, extra=f"mcp-session-id: {session}\r\n")
        if headers.get("mcp-session-id") not in self.sessions:
            return http(b"", status="404 Not Found")
        if method == "tools/list":
            return rpc(request, {"tools": TOOLS})
        if method == "tools/call":
            return rpc(request, {"content": [{"type": "text", "text": "done"}]})
        return http(b"", status="202 Accepted")


def http(
    body: bytes, *, status: str = "200 OK", kind: str = "application/json", extra: str = ""
) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n{extra}\r\n"
    )
    return head.encode() + body


def rpc(request: Request, result: Any, extra: str = "") -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "result": result})
    return http(body.encode(), extra=extra)


def stream_head() -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


def event(message: Any) -> bytes:
    return b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n"


@contextlib.asynccontextmanager
async def hostile_server() -> AsyncIterator[HostileMcp]:
    hostile = HostileMcp()
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0)
    hostile.port = server.sockets[0].getsockname()[1]
    try:
        yield hostile
    finally:
        server.close()
        await hostile.end()


def client_of(
    port: int, resolver: Resolver | None = None, **changes: Any
) -> tuple[McpServers, McpServer]:
    """A client, and the server as the operator configured it."""
    url = f"http://127.0.0.1:{port}/mcp"
    settings = ToolsSettings(mcp_servers=(McpServerSettings("s", url),), **changes)
    servers = McpServers(settings, Caller(settings.mcp_call_limits, resolver), SystemClock())
    return servers, McpServer(label="s", url=url, account="", is_operators=True)
