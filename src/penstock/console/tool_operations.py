"""Operations on tools: shows the MCP servers that are offered, and asks each for its tools."""

import asyncio
from urllib.parse import urlsplit

import msgspec

from penstock.console.operation import Nothing, Operation
from penstock.console.rooms import OperatorRooms
from penstock.tools.mcp import McpFailure, McpSecrets, McpServers
from penstock.tools.mcp.servers import operators_server
from penstock.tools.mcp_settings import ApprovalLists, McpServerSettings


class ShownTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool that a server lists. `is_offered`: the operator's allow-list lets it pass."""

    name: str
    description: str
    is_offered: bool
    is_read_only: bool
    # Whether the operator demands approval; else it is as the caller says.
    needs_approval: bool


class ShownToolServer(msgspec.Struct, frozen=True, kw_only=True):
    """One MCP server. `problem` is empty if it answered; `era` is how it is spoken to."""

    label: str
    # Without a query, which may hold a key.
    url: str
    accounts: list[str]
    era: str
    problem: str
    tools: list[ShownTool]


class ToolServersAnswer(msgspec.Struct, frozen=True):
    """Every MCP server that the operator has configured."""

    servers: list[ShownToolServer]


async def look_at_server(servers: McpServers, settings: McpServerSettings) -> ShownToolServer:
    """Ask one configured server for its tools, and say what came of it."""
    era, problem, tools = "", "", []
    try:
        async with servers.open(operators_server(settings), McpSecrets()) as opened:
            tools = await opened.list_tools()
            era = opened.era.value if opened.era else ""
    except McpFailure as failure:
        # A server may have written this, and terminals obey control characters.
        problem = "".join(each for each in failure.message[:300] if each.isprintable())
    return ShownToolServer(
        label=settings.label,
        url=urlsplit(settings.url)._replace(query="").geturl(),
        accounts=list(settings.accounts),
        era=era,
        problem=problem,
        tools=[
            ShownTool(
                name=tool.name,
                description=tool.description,
                is_offered=not settings.allowed_tools or tool.name in settings.allowed_tools,
                is_read_only=tool.is_read_only,
                needs_approval=_needs_approval(settings, tool.name),
            )
            for tool in sorted(tools, key=lambda each: each.name)
        ],
    )


def _needs_approval(settings: McpServerSettings, tool: str) -> bool:
    demand = settings.require_approval
    if isinstance(demand, ApprovalLists):
        return demand.demands(tool)
    return demand == "always"


async def _list(rooms: OperatorRooms, _: Nothing) -> ToolServersAnswer:
    looks = (look_at_server(rooms.mcp, each) for each in rooms.mcp.configured)
    return ToolServersAnswer(list(await asyncio.gather(*looks)))


LIST_TOOLS = Operation(
    name="list_tools",
    summary="List the MCP servers that are offered: whether each answers, and its tools.",
    method="GET",
    path="/tools",
    question=Nothing,
    answer=ToolServersAnswer,
    run=_list,
)
TOOL_OPERATIONS = (LIST_TOOLS,)
