"""Joins the rooms that run tools for requests, in a gateway worker."""

import msgspec

from penstock.clock import Clock
from penstock.config import Config
from penstock.ingress.pages.container_file_pages import ContainerFilePages
from penstock.intake.request_reader import RequestReader
from penstock.outbound import Caller
from penstock.serving.request_path import RequestPath
from penstock.tools import CodeCalls, ContainerBook
from penstock.tools.mcp import McpPolicy, McpServers
from penstock.turns.code_tool import TurnCode
from penstock.turns.foreground import ForegroundTurns
from penstock.turns.tool_calls import ToolCalls, ToolCallSettings
from penstock.turns.tool_offers import ToolOffers


def serves_tools(config: Config) -> bool:
    """Return whether tools run on this gateway; else engines get them as they are."""
    tools = config.tools
    return bool(tools.sandbox_hosts or tools.mcp_servers or tools.mcp_hosts)


class TurnRooms(msgspec.Struct, frozen=True):
    """What finds the tools of a request, and what runs them."""

    offers: ToolOffers
    calls: ToolCalls

    @classmethod
    def build(
        cls, config: Config, clock: Clock, containers: ContainerBook, files: ContainerFilePages
    ) -> "TurnRooms":
        tools = config.tools
        servers = McpServers(tools, Caller(tools.mcp_call_limits), clock)
        has_code = bool(tools.sandbox_hosts)
        offers = ToolOffers(
            containers if has_code else None,
            servers,
            McpPolicy(tools),
            config.turns.foreground_max,
        )
        calls = CodeCalls(containers, tools, clock)
        code = TurnCode(containers, calls, files) if has_code else None
        settings = ToolCallSettings(
            tools.call_seconds_max, config.turns.parallel_max, tools.output_bytes_max
        )
        return cls(offers, ToolCalls(code, servers, settings))

    def foreground(
        self, reader: RequestReader, path: RequestPath, config: Config
    ) -> ForegroundTurns:
        """Build what runs turns of connected clients."""
        return ForegroundTurns(reader, path, self.calls, config.turns)
