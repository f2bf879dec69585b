"""An MCP server of the SDK, as its users write one. Prints its port, then serves until killed.

Its first argument: `stateless` serves as the SDK does; `sessions` refuses the newer revision, as
older SDKs do. Its second: `json` answers in JSON bodies, else in events. Requests by method are
counted at /counts.
"""

import json
import socket
import sys
from collections import Counter
from typing import Annotated, Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from pydantic import Field

NEW = b"2026-07-28"
counts: Counter[str] = Counter()
server = MCPServer("counterpart", log_level="CRITICAL")


@server.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail(reason: str) -> str:
    """Fail as told."""
    raise ValueError(reason)


@server.tool()
async def talk(ctx: Context) -> str:
    """Send notifications before the result."""
    await ctx.report_progress(1, 2)
    await ctx.session.send_tool_list_changed()
    return "said"


@server.tool()
def region(where: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
    """Want an argument in a header too."""
    return where


@server.tool(name="größe")
def length(text: str) -> int:
    """Have a name that no header can hold as it is."""
    return len(text)


def counted(app: Any, refuses_new: bool) -> Any:
    async def serve(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        if scope["path"] == "/counts":
            await answer(send, 200, dict(counts))
            return
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        method = json.loads(body).get("method", "reply") if body else scope["method"]
        counts[method] += 1
        if refuses_new and dict(scope["headers"]).get(b"mcp-protocol-version") == NEW:
            error = {"code": -32600, "message": "Bad Request: Unsupported protocol version"}
            await answer(send, 400, {"jsonrpc": "2.0", "id": None, "error": error})
            return
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return parts.pop() if parts else await receive()

        await app(scope, again, send)

    return serve


async def answer(send: Any, status: int, value: Any) -> None:
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(value).encode()})


def main() -> None:
    app = server.streamable_http_app(json_response=sys.argv[2] == "json")
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    serving = counted(app, sys.argv[1] == "sessions")
    config = uvicorn.Config(serving, log_level="warning", lifespan="on")
    uvicorn.Server(config).run([listener])


main()
