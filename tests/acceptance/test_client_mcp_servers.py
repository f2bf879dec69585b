"""Our MCP client against servers of the real SDK: both eras, answers as JSON and as events."""

import pytest
from tests.acceptance.mcp_servers import counts, sdk_server

from penstock.clock import SystemClock
from penstock.outbound import Caller
from penstock.tools.mcp import McpSecrets, McpServers, result_text
from penstock.tools.mcp.eras import Era
from penstock.tools.mcp.servers import operators_server
from penstock.tools.mcp_settings import McpServerSettings
from penstock.tools.settings import ToolsSettings

every_server = pytest.mark.parametrize(
    ("era", "bodies"),
    [("stateless", "sse"), ("stateless", "json"), ("sessions", "sse"), ("sessions", "json")],
)


@every_server
async def test_tools_are_listed_and_called(era: str, bodies: str) -> None:
    with sdk_server(era, bodies) as url:
        settings = ToolsSettings(mcp_servers=(McpServerSettings("sdk", f"{url}/mcp"),))
        servers = McpServers(settings, Caller(settings.mcp_call_limits), SystemClock())
        server = operators_server(settings.mcp_servers[0])
        async with servers.open(server, McpSecrets()) as opened:
            tools = {tool.name: tool for tool in await opened.list_tools()}
            assert opened.era is Era(era)
            assert set(tools) == {"add", "fail", "talk", "region", "größe"}
            assert tools["add"].is_read_only
            assert not tools["talk"].is_read_only
            said = {
                name: await opened.call(tools[name], arguments, 20)
                for name, arguments in (
                    ("add", {"a": 2, "b": 3}),
                    ("fail", {"reason": "so"}),
                    ("talk", {}),
                    ("region", {"where": "höher"}),
                    ("größe", {"text": "abc"}),
                )
            }
            texts = {name: result_text(result, 1000) for name, result in said.items()}
        assert texts["add"] == "5"
        assert said["add"].structured is not None
        assert said["fail"].is_error
        assert "fail" in texts["fail"]
        assert (texts["talk"], texts["region"], texts["größe"]) == ("said", "höher", "3")
        # The second connection knows the era, and a session lasts as long as its connection.
        assert len(await servers.list_tools(server, McpSecrets())) == len(tools)
        asked = counts(url)
    assert (asked["server/discover"], asked["tools/list"], asked["tools/call"]) == (1, 2, 5)
    sessions = 2 if era == "sessions" else 0
    assert asked.get("initialize", 0) == asked.get("DELETE", 0) == sessions
