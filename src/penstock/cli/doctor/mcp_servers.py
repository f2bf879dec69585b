"""Checks that each configured MCP server answers, and has the tools that are offered."""

import asyncio
from pathlib import Path

from penstock.cli.doctor.check import Check, fail, ok, warn
from penstock.clock import SystemClock
from penstock.console.tool_operations import look_at_server
from penstock.outbound import Caller
from penstock.tools.mcp import McpServers
from penstock.tools.mcp_headers import read_header_file
from penstock.tools.mcp_settings import McpServerSettings
from penstock.tools.settings import ToolsSettings


async def check_mcp_servers(settings: ToolsSettings) -> list[Check]:
    """Return a row for each server."""
    servers = McpServers(settings, Caller(settings.mcp_call_limits), SystemClock())
    checks = (_check(servers, each) for each in settings.mcp_servers)
    return list(await asyncio.gather(*checks))


async def _check(servers: McpServers, settings: McpServerSettings) -> Check:
    name = f"MCP server {settings.label}"
    if settings.headers_file and (problem := _file_problem(Path(settings.headers_file))):
        return fail(name, problem, "Correct headers_file in tools.mcp_servers.")
    seen = await look_at_server(servers, settings)
    if seen.problem:
        return fail(name, f"{seen.url}: {seen.problem}", "Start it, or correct tools.mcp_servers.")
    missing = sorted(set(settings.allowed_tools) - {tool.name for tool in seen.tools})
    if missing:
        finding = f"has no tool {', '.join(missing)}"
        return warn(name, finding, "Correct allowed_tools in tools.mcp_servers.")
    offered = sum(tool.is_offered for tool in seen.tools)
    return ok(name, f"offers {offered} of {len(seen.tools)} tools ({seen.era})")


def _file_problem(path: Path) -> str:
    try:
        read_header_file(path)
    except OSError as unreadable:
        return f"{path}: {unreadable.strerror}"
    except ValueError as wrong:
        return str(wrong)
    return ""
