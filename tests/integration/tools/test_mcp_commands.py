"""`penstock tools list`, its operation, and the doctor's rows for MCP servers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.integration.cells.commands import Penstock, read
from tests.integration.cells.control_process import control_process
from tests.integration.cells.gateway_process import free_port
from tests.integration.tools.hostile_mcp import HostileMcp, hostile_server

from penstock.cli.doctor.check import CheckVerdict
from penstock.cli.doctor.mcp_servers import check_mcp_servers
from penstock.clock import SystemClock
from penstock.config import toml
from penstock.outbound import Caller
from penstock.tools.mcp import McpFailure, McpSecrets, McpServers
from penstock.tools.mcp.servers import operators_server
from penstock.tools.mcp_settings import McpServerSettings
from penstock.tools.settings import ToolsSettings

SECRET = "s3cr3t-never-show"


def configured(hostile: HostileMcp, headers_file: Path) -> list[dict[str, Any]]:
    headers_file.write_text(f"# the server's key\nX-Key: {SECRET}\n")
    there = f"http://127.0.0.1:{hostile.port}/mcp?key={SECRET}"
    return [
        {"label": "docs", "url": there, "headers_file": str(headers_file)},
        {"label": "strict", "url": there, "require_approval": "always", "accounts": ["acme"]},
        {"label": "gone", "url": f"http://127.0.0.1:{free_port()}/mcp"},
    ]


def check_listed(servers: list[dict[str, Any]], hostile: HostileMcp) -> None:
    assert [(each["label"], each["era"]) for each in servers] == [
        ("docs", "sessions"),
        ("strict", "sessions"),
        ("gone", ""),
    ]
    assert servers[0]["url"] == f"http://127.0.0.1:{hostile.port}/mcp"
    assert "no connection" in servers[2]["problem"]
    tools = [each["tools"] for each in servers]
    assert [(each[0]["name"], each[0]["needs_approval"]) for each in tools[:2]] == [
        ("echo", False),
        ("echo", True),
    ]
    # The operator's headers went to the server that they are for, and to no other.
    assert SECRET in {each.get("x-key") for each in hostile.headers}
    assert hostile.counts["tools/list"] == 2


async def test_a_command_lists_servers_and_shows_no_secret(
    penstock: Penstock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hostile_server() as hostile:
        servers = configured(hostile, tmp_path / "headers")
        monkeypatch.setenv("PENSTOCK_TOOLS_MCP_SERVERS", toml(servers))
        listed = await asyncio.to_thread(penstock, "tools", "list", "--json")
        check_listed(read(listed), hostile)
        table = (await asyncio.to_thread(penstock, "tools", "list")).stdout
        assert "as asked" in table
        assert "always" in table
        assert SECRET not in listed.stdout + table


async def test_control_asks_the_servers(dsn: str, tmp_path: Path) -> None:
    async with hostile_server() as hostile:
        settings: Any = {"tools.mcp_servers": configured(hostile, tmp_path / "headers")}

        def ask() -> Any:
            with control_process(dsn, tmp_path, settings) as control, control.client() as client:
                return client.get("/tools", timeout=30).json()

        check_listed((await asyncio.to_thread(ask))["servers"], hostile)


async def test_the_doctor_has_a_row_for_each_server(tmp_path: Path) -> None:
    async with hostile_server() as hostile:
        url = f"http://127.0.0.1:{hostile.port}/mcp"
        missing = tmp_path / "none"
        settings = ToolsSettings(
            mcp_servers=(
                McpServerSettings("good", url),
                McpServerSettings("other", url, allowed_tools=("echo", "gone")),
                McpServerSettings("file", url, headers_file=str(missing)),
                McpServerSettings("away", f"http://127.0.0.1:{free_port()}/mcp"),
            )
        )
        checks = await check_mcp_servers(settings)
    assert [check.verdict for check in checks] == [
        CheckVerdict.OK,
        CheckVerdict.WARN,
        CheckVerdict.FAIL,
        CheckVerdict.FAIL,
    ]
    assert "1 of 1 tools (sessions)" in checks[0].finding
    assert "gone" in checks[1].finding
    assert str(missing) in checks[2].finding


async def test_a_headers_file_that_is_gone_sends_nothing_and_names_no_file(tmp_path: Path) -> None:
    async with hostile_server() as hostile:
        url, path = f"http://127.0.0.1:{hostile.port}/mcp", tmp_path / "none"
        settings = ToolsSettings(mcp_servers=(McpServerSettings("s", url, {}, str(path)),))
        servers = McpServers(settings, Caller(settings.mcp_call_limits), SystemClock())
        with pytest.raises(McpFailure) as raised:
            await servers.list_tools(operators_server(settings.mcp_servers[0]), McpSecrets())
        assert str(path) not in raised.value.message
        assert not hostile.requests
        path.write_text("Authorization: Bearer theirs\n")
        await servers.list_tools(
            operators_server(settings.mcp_servers[0]), McpSecrets("callers", {"x-user": "u"})
        )
        # The operator's header wins over the caller's.
        assert hostile.headers[0]["authorization"] == "Bearer theirs"
        assert hostile.headers[0]["x-user"] == "u"
