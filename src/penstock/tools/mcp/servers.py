"""The way in to MCP servers: open a connection, list its tools, call one, within a deadline."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from penstock.clock import Clock
from penstock.outbound import Caller
from penstock.tools.mcp.connection import McpConnection, too_late
from penstock.tools.mcp.eras import Era, EraMemory
from penstock.tools.mcp.link import McpLink
from penstock.tools.mcp.shapes import (
    FailureKind,
    McpFailure,
    McpResult,
    McpSecrets,
    McpServer,
    McpTool,
)
from penstock.tools.mcp_headers import read_header_file
from penstock.tools.mcp_settings import McpServerSettings
from penstock.tools.settings import ToolsSettings


class OpenedServer:
    """One server, connected for as long as the block lasts. Calls may run at the same time."""

    def __init__(self, connection: McpConnection, settings: ToolsSettings) -> None:
        self._connection = connection
        self._settings = settings

    @property
    def era(self) -> Era | None:
        """Which era the server speaks; None before the first answer."""
        return self._connection.era

    async def list_tools(self) -> list[McpTool]:
        """Return the server's tools. McpFailure if it does not say."""
        seconds = self._settings.mcp_list_seconds_max
        try:
            async with asyncio.timeout(seconds):
                return await self._connection.list_tools()
        except TimeoutError:
            raise too_late(seconds) from None

    async def call(self, tool: McpTool, arguments: Mapping[str, Any], seconds: float) -> McpResult:
        """Call a tool, for at most `seconds` and `tools.call_seconds_max`."""
        seconds = min(seconds, self._settings.call_seconds_max)
        try:
            async with asyncio.timeout(seconds):
                return await self._connection.call(tool, arguments)
        except TimeoutError:
            raise too_late(seconds) from None


class McpServers:
    """Opens servers. One for each process: it remembers which era each server speaks."""

    def __init__(self, settings: ToolsSettings, caller: Caller, clock: Clock) -> None:
        self._settings = settings
        self._caller = caller
        self._eras = EraMemory(
            clock, seconds=settings.mcp_era_seconds, servers_max=settings.mcp_eras_max
        )
        self._configured = {server.label: server for server in settings.mcp_servers}

    @property
    def configured(self) -> tuple[McpServerSettings, ...]:
        """The servers that the operator offers."""
        return self._settings.mcp_servers

    @asynccontextmanager
    async def open(self, server: McpServer, secrets: McpSecrets) -> AsyncIterator[OpenedServer]:
        """Open a server for a turn. Nothing is sent before it is used; its session ends with it."""
        headers = secrets.as_headers()
        if server.is_operators:
            headers = _joined(headers, _operators_headers(self._configured[server.label]))
        link = McpLink(server, headers, caller=self._caller, settings=self._settings)
        connection = McpConnection(server.url, link, eras=self._eras, settings=self._settings)
        try:
            yield OpenedServer(connection, self._settings)
        finally:
            await connection.close()

    async def list_tools(self, server: McpServer, secrets: McpSecrets) -> list[McpTool]:
        """List a server's tools by a connection of its own."""
        async with self.open(server, secrets) as opened:
            return await opened.list_tools()

    async def call(
        self,
        server: McpServer,
        secrets: McpSecrets,
        tool: McpTool,
        arguments: Mapping[str, Any],
        seconds: float,
    ) -> McpResult:
        """Call a tool by a connection of its own."""
        async with self.open(server, secrets) as opened:
            return await opened.call(tool, arguments, seconds)


def operators_server(settings: McpServerSettings, account: str = "") -> McpServer:
    """Return a configured server, for an account; "" = the operator's own look at it."""
    return McpServer(label=settings.label, url=settings.url, account=account, is_operators=True)


def _operators_headers(settings: McpServerSettings) -> dict[str, str]:
    if not settings.headers_file:
        return settings.headers
    try:
        return _joined(settings.headers, read_header_file(Path(settings.headers_file)))
    except (OSError, ValueError):
        # The reason names a file of the operator's: `penstock doctor` shows it, callers must not.
        raise McpFailure(
            FailureKind.HTTP, 502, "the server's headers cannot be read", may_have_run=False
        ) from None


def _joined(first: Mapping[str, str], over: Mapping[str, str]) -> dict[str, str]:
    """Return both, by lower-case name; the second one wins."""
    return {name.lower(): value for each in (first, over) for name, value in each.items()}
