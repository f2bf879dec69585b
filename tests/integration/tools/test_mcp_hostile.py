"""A hostile MCP server costs a bounded time and memory, and never more than a failure."""

import asyncio
import json
from typing import Any

import pytest
from tests.integration.tools.hostile_mcp import (
    TOOLS,
    Request,
    client_of,
    event,
    hostile_server,
    http,
    rpc,
    stream_head,
)

from penstock.tools.mcp import FailureKind, McpFailure, McpSecrets, McpTool, result_text

ECHO = McpTool(name="echo")
NOBODY = McpSecrets()
SMALL: dict[str, Any] = {
    "mcp_body_bytes_max": 8192,
    "mcp_event_bytes_max": 4096,
    "mcp_events_max": 10,
    "mcp_first_byte_seconds": 0.5,
    "call_seconds_max": 1.0,
    "mcp_list_seconds_max": 1.0,
}


class Doing:
    """Writes bytes instead of the answer to one method."""

    def __init__(
        self, method: str, *pieces: bytes, pause: float = 0.0, is_endless: bool = False
    ) -> None:
        self._method = method
        self._pieces = pieces
        self._pause = pause
        self._is_endless = is_endless

    async def __call__(self, request: Request, writer: asyncio.StreamWriter) -> bool:
        if request.get("method") != self._method:
            return False
        while True:
            for piece in self._pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(self._pause)
            if not self._is_endless:
                return True


def answer_to(identity: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "id": identity, "result": {"content": []}})
    return http(body.encode())


NOTE = event({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}})
DEEP = b'{"jsonrpc":"2.0","id":1,"result":' + b"[" * 3000 + b"]" * 3000 + b"}"


@pytest.mark.parametrize(
    ("act", "kind", "code"),
    [
        (Doing("tools/call", http(b"x" * 10_000)), FailureKind.HTTP, 502),
        (Doing("tools/call", http(b"", status="500 No")), FailureKind.HTTP, 500),
        (Doing("tools/call", http(b"<p>", kind="text/html")), FailureKind.PROTOCOL, -32600),
        (Doing("tools/call", http(b"", status="202 Accepted")), FailureKind.PROTOCOL, -32600),
        (Doing("tools/call", http(DEEP)), FailureKind.PROTOCOL, -32600),
        (Doing("tools/call", http(b"{")), FailureKind.PROTOCOL, -32600),
        (Doing("tools/call", answer_to(99)), FailureKind.PROTOCOL, -32600),
        (Doing("tools/call", answer_to("3")), FailureKind.PROTOCOL, -32600),
        (Doing("tools/call", b"SSH-2.0-x\r\n\r\n"), FailureKind.HTTP, 502),
        (Doing("tools/call", b"HTTP/1.1 200 OK\r\nx: " + b"y" * 200_000), FailureKind.HTTP, 502),
        (Doing("tools/call", http(b"abc")[:-1]), FailureKind.HTTP, 502),
        (Doing("tools/call", stream_head(), NOTE), FailureKind.PROTOCOL, -32600),
        (Doing("tools/call", stream_head(), b"data: " + b"x" * 5000), FailureKind.PROTOCOL, -32600),
    ],
)
async def test_a_wrong_answer_is_a_failure(act: Doing, kind: FailureKind, code: int) -> None:
    async with hostile_server() as hostile:
        hostile.act = act
        servers, server = client_of(hostile.port, **SMALL)
        with pytest.raises(McpFailure) as raised:
            await servers.call(server, NOBODY, ECHO, {}, 5)
    assert (raised.value.kind, raised.value.code) == (kind, code)
    assert raised.value.may_have_run


@pytest.mark.parametrize(
    "act",
    [
        Doing("tools/call", stream_head() + NOTE, is_endless=True),
        Doing("tools/call", stream_head(), *[b": x\n"] * 100_000, pause=0.01),
        Doing("tools/call", b"H", b"T", pause=5.0),
        Doing("tools/call", *[bytes([each]) for each in stream_head()], pause=0.1),
        Doing("server/discover", b"", pause=60.0),
    ],
    ids=["endless", "comments", "silent", "slow", "silent-probe"],
)
async def test_a_server_that_never_ends_is_left_in_time(act: Doing) -> None:
    async with hostile_server() as hostile:
        hostile.act = act
        servers, server = client_of(hostile.port, **SMALL)
        async with asyncio.timeout(4):
            if act._method == "server/discover":
                # Any failure of the probe says that the server is older.
                assert await servers.list_tools(server, NOBODY)
                return
            with pytest.raises(McpFailure):
                await servers.call(server, NOBODY, ECHO, {}, 5)


async def test_a_redirect_is_not_followed() -> None:
    async with hostile_server() as hostile, hostile_server() as other:
        there = f"location: http://127.0.0.1:{other.port}/mcp\r\n"
        moved = http(b"", status="307 Moved", extra=there)
        servers, server = client_of(hostile.port)
        for method in ("initialize", "tools/list"):
            hostile.act = Doing(method, moved)
            with pytest.raises(McpFailure) as raised:
                await servers.list_tools(server, NOBODY)
            assert (raised.value.kind, raised.value.code) == (FailureKind.HTTP, 307)
    assert not other.requests


async def test_a_session_that_the_server_forgot_is_begun_again_once() -> None:
    async with hostile_server() as hostile:
        servers, server = client_of(hostile.port)
        async with servers.open(server, NOBODY) as opened:
            await opened.list_tools()
            hostile.sessions.clear()
            assert result_text(await opened.call(ECHO, {}, 5), 100) == "done"
            assert hostile.counts["initialize"] == 2
            hostile.act = Doing("tools/call", http(b"", status="404 Not Found"))
            with pytest.raises(McpFailure) as raised:
                await opened.call(ECHO, {}, 5)
            assert raised.value.code == 404
        assert hostile.counts["initialize"] == 3
        assert hostile.counts["DELETE"] == 1
        assert hostile.headers[-1]["mcp-session-id"] == "session-3"


async def test_calls_at_the_same_time_share_one_session() -> None:
    async with hostile_server() as hostile:
        servers, server = client_of(hostile.port)
        async with servers.open(server, NOBODY) as opened:
            results = await asyncio.gather(*(opened.call(ECHO, {}, 5) for _ in range(10)))
            assert {result_text(result, 100) for result in results} == {"done"}
            assert hostile.counts["initialize"] == 1
            hostile.sessions.clear()
            await asyncio.gather(*(opened.call(ECHO, {}, 5) for _ in range(10)))
            assert hostile.counts["initialize"] == 2
    asked = [each["id"] for each in hostile.requests if each.get("method") == "tools/call"]
    assert len(set(asked)) == len(asked)


async def test_a_servers_own_requests_are_answered_and_refused() -> None:
    async with hostile_server() as hostile:

        async def act(request: Request, writer: asyncio.StreamWriter) -> bool:
            if request.get("method") != "tools/call":
                return False
            writer.write(stream_head())
            writer.write(event({"jsonrpc": "2.0", "id": "p", "method": "ping"}))
            writer.write(event({"jsonrpc": "2.0", "id": 7, "method": "sampling/createMessage"}))
            writer.write(event({"jsonrpc": "2.0", "id": 7777, "result": {"content": []}}))
            result = {"content": [{"type": "text", "text": "at last"}]}
            writer.write(event({"jsonrpc": "2.0", "id": request["id"], "result": result}))
            return True

        hostile.act = act
        servers, server = client_of(hostile.port)
        result = await servers.call(server, NOBODY, ECHO, {}, 5)
        assert result_text(result, 100) == "at last"
        replies = [each for each in hostile.requests if "method" not in each]
    assert replies[0] == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert (replies[1]["id"], replies[1]["error"]["code"]) == (7, -32601)


async def test_tools_are_listed_by_pages_and_bounded() -> None:
    async with hostile_server() as hostile:
        is_endless = False

        async def act(request: Request, writer: asyncio.StreamWriter) -> bool:
            if request.get("method") != "tools/list":
                return False
            page = int(request["params"].get("cursor", 0))
            large = {"name": f"large{page}", "inputSchema": {"description": "x" * 400}}
            wrong = {"name": f"wrong{page}", "inputSchema": []}
            tools = [{**TOOLS[0], "name": f"t{page}"}, large, wrong, {"no": "name"}]
            more = {"nextCursor": str(page + 1)} if is_endless or page < 2 else {}
            writer.write(rpc(request, {"tools": tools if not is_endless else [], **more}))
            return True

        hostile.act = act
        servers, server = client_of(
            hostile.port, mcp_schema_bytes_max=300, mcp_pages_max=4, mcp_tools_max=12
        )
        assert [tool.name for tool in await servers.list_tools(server, NOBODY)] == [
            "t0",
            "t1",
            "t2",
        ]
        is_endless = True
        with pytest.raises(McpFailure, match="pages"):
            await servers.list_tools(server, NOBODY)
        assert hostile.counts["tools/list"] == 3 + 4
        few, server = client_of(hostile.port, mcp_tools_max=11)
        is_endless = False
        with pytest.raises(McpFailure, match="more than 11 tools"):
            await few.list_tools(server, NOBODY)


async def test_an_era_is_asked_for_once_and_forgotten_when_it_no_longer_holds() -> None:
    async with hostile_server() as hostile:
        is_new = True

        async def act(request: Request, writer: asyncio.StreamWriter) -> bool:
            if not is_new or "_meta" not in request.get("params", {}):
                return False
            if request["method"] == "server/discover":
                writer.write(rpc(request, {"supportedVersions": ["2026-07-28"]}))
            else:
                writer.write(rpc(request, {"tools": TOOLS}))
            return True

        hostile.act = act
        servers, server = client_of(hostile.port)
        for _ in range(3):
            await servers.list_tools(server, NOBODY)
        assert hostile.counts == {"server/discover": 1, "tools/list": 3}
        assert hostile.headers[-1]["mcp-method"] == "tools/list"
        is_new = False
        # The server was replaced by an older one.
        assert await servers.list_tools(server, NOBODY)
        assert (hostile.counts["initialize"], hostile.counts["server/discover"]) == (1, 2)
        is_new = True
