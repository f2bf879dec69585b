"""The client of MCP servers, in both eras of the protocol, and what it offers to a model.

`servers.py` is the way in. `tool_entry.py`, `offer.py` and `result_text.py` decide and do no I/O.
"""

from penstock.tools.mcp.offer import McpOffer, OfferedTool, offer_tools
from penstock.tools.mcp.result_text import call_error, result_text
from penstock.tools.mcp.servers import McpServers
from penstock.tools.mcp.shapes import (
    FailureKind,
    McpFailure,
    McpResult,
    McpSecrets,
    McpServer,
    McpTool,
)
from penstock.tools.mcp.tool_entry import McpChoice, McpPolicy

__all__ = [
    "FailureKind",
    "McpChoice",
    "McpFailure",
    "McpOffer",
    "McpPolicy",
    "McpResult",
    "McpSecrets",
    "McpServer",
    "McpServers",
    "McpTool",
    "OfferedTool",
    "call_error",
    "offer_tools",
    "result_text",
]
