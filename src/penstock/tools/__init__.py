"""Tools that run here: containers for code, on sandbox hosts, and MCP servers (`mcp`).

Promises: an account reaches only its own containers and files; a container that has ended is never
taken for one that runs; all content that is kept is encrypted; a container's time is charged once.
A tool's failure is told to the model, callers' secrets are never logged, stored or shown, and all
that servers send is bounded. The only writer of `containers`, `container_files` and
`container_usage`.
"""

from penstock.tools.code_calls import CodeCalls, CopiedFiles
from penstock.tools.container_book import ContainerBook, ContainerQuery, ContainerWish
from penstock.tools.container_files import ContainerFiles
from penstock.tools.container_ids import ContainerFileId, ContainerId
from penstock.tools.container_queries import AccountContainer, ContainerFile
from penstock.tools.container_upkeep import ContainerUpkeep
from penstock.tools.sandbox_hosts import SandboxHosts
from penstock.tools.settings import ToolsSettings

__all__ = [
    "AccountContainer",
    "CodeCalls",
    "ContainerBook",
    "ContainerFile",
    "ContainerFileId",
    "ContainerFiles",
    "ContainerId",
    "ContainerQuery",
    "ContainerUpkeep",
    "ContainerWish",
    "CopiedFiles",
    "SandboxHosts",
    "ToolsSettings",
]
