"""`penstock tools`: lists the MCP servers that callers may use, and their tools."""

import typer

from penstock.cli.administration import run_operation
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import error_console, print_json, print_table
from penstock.cli.table import Column
from penstock.console.operation import Nothing
from penstock.console.tool_operations import LIST_TOOLS, ShownTool, ShownToolServer

app = typer.Typer(help="List the MCP servers that are offered, and their tools.")


@app.callback()
def group() -> None:
    """List the MCP servers that are offered, and their tools."""


@app.command(name="list")
def list_(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Ask each configured MCP server for its tools; show them, and what needs approval."""
    servers = run_operation(context, state, LIST_TOOLS, Nothing()).servers
    if json:
        print_json(servers)
        return
    if not servers:
        error_console().print("No MCP server is configured: name some in tools.mcp_servers.")
        return
    columns = ("server", "tool", "approval", Column("accounts"), Column("about", is_prose=True))
    print_table(columns, [row for server in servers for row in _rows(server)])


def _rows(server: ShownToolServer) -> list[tuple[str, str, str, str, str]]:
    accounts = ", ".join(server.accounts) or "all"
    if server.problem:
        return [(server.label, "-", "-", accounts, f"{server.url}: {server.problem}")]
    return [
        (server.label, tool.name, _approval(tool), accounts, _about(tool)) for tool in server.tools
    ]


def _approval(tool: ShownTool) -> str:
    if not tool.is_offered:
        return "not offered"
    return "always" if tool.needs_approval else "as asked"


def _about(tool: ShownTool) -> str:
    # A server writes this: only one printable line of it is shown.
    line = tool.description.strip().partition("\n")[0]
    return "".join(each for each in line[:100] if each.isprintable())
