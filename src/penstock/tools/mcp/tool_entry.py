"""Reads a request's `mcp` tools, and decides which servers they mean. Pure.

A server is the operator's, by its label, or the caller's own, by a URL whose host is allowed.
"""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Raw

from penstock.errors import InvalidRequest
from penstock.outbound import Guard, check_target
from penstock.outbound.target import read_target
from penstock.tools.mcp.shapes import McpSecrets, McpServer, McpTool
from penstock.tools.mcp_headers import headers_problem
from penstock.tools.mcp_settings import ApprovalLists, McpServerSettings, is_label
from penstock.tools.settings import ToolsSettings

_PUBLIC: Final = Guard()
_ANY_HOST: Final = "*"
Names = Annotated[list[str], Meta(max_length=1024)]
Approval = Literal["always", "never"]


class ToolFilter(msgspec.Struct, frozen=True):
    """Tools by name, or by the server's hint that they only read."""

    tool_names: Names | None = None
    read_only: bool | None = None

    @property
    def is_empty(self) -> bool:
        return self.tool_names is None and self.read_only is None

    def matches(self, tool: McpTool) -> bool:
        """Return whether a tool passes. A filter that says nothing lets every tool pass."""
        is_named = self.tool_names is None or tool.name in self.tool_names
        return is_named and (self.read_only is None or tool.is_read_only == self.read_only)


class ApprovalFilters(msgspec.Struct, frozen=True):
    """Which tools need approval. A tool that `never` does not name, or `always` names too, does."""

    always: ToolFilter | None = None
    never: ToolFilter | None = None


class _Entry(msgspec.Struct, frozen=True):
    """One tool of a request, as it is written."""

    server_label: str
    server_url: str | None = None
    server_description: str | None = None
    connector_id: str | None = None
    tunnel_id: str | None = None
    authorization: str | None = None
    headers: dict[str, str] | None = None
    allowed_tools: Names | ToolFilter | None = None
    require_approval: Approval | ApprovalFilters | None = None


class McpChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A server that a request may use, and what its caller and the operator say of it."""

    server: McpServer
    secrets: McpSecrets
    description: str
    allowed: ToolFilter
    approval: Approval | ApprovalFilters
    # The operator's; of a server that the caller named, no demand.
    operators_allowed: tuple[str, ...] = ()
    operators_approval: Approval | ApprovalLists = "never"

    def offers(self, tool: McpTool) -> bool:
        """Return whether a tool passes both allow-lists."""
        is_operators = not self.operators_allowed or tool.name in self.operators_allowed
        return is_operators and self.allowed.matches(tool)

    def needs_approval(self, tool: McpTool) -> bool:
        """Return whether a person must approve a call: the stricter of both demands."""
        return self.is_demanded_by_operator(tool) or _is_demanded(tool, self.approval)

    def is_demanded_by_operator(self, tool: McpTool) -> bool:
        """Return whether the operator demands approval, so that only a stored request counts."""
        demand = self.operators_approval
        if isinstance(demand, ApprovalLists):
            return demand.demands(tool.name)
        return demand == "always"

    def echo(self) -> dict[str, Any]:
        """Return the tool as answers show it: without secrets, which a URL's path may hold too."""
        shown: dict[str, Any] = {
            "type": "mcp",
            "server_label": self.server.label,
            "allowed_tools": None if self.allowed.is_empty else msgspec.to_builtins(self.allowed),
            "require_approval": msgspec.to_builtins(self.approval),
        }
        if not self.server.is_operators:
            target = read_target(self.server.url)
            shown["server_url"] = f"https://{target.authority}/<redacted>"
        if self.description:
            shown["server_description"] = self.description
        return shown


class McpPolicy:
    """Decides which servers requests may use, by the operator's settings."""

    def __init__(self, settings: ToolsSettings) -> None:
        self._servers = {server.label: server for server in settings.mcp_servers}
        self._hosts = frozenset(host.lower() for host in settings.mcp_hosts)
        self._servers_max = settings.mcp_servers_per_request_max

    def choose(self, entries: list[tuple[int, Raw]], account: str) -> list[McpChoice]:
        """Return the servers of a request's `mcp` tools, given with their places in `tools`.

        InvalidRequest states what is wrong, with the field.
        """
        if len(entries) > self._servers_max:
            raise InvalidRequest(
                f"A request may name {self._servers_max} MCP servers.", param="tools"
            )
        choices = [self._choose(raw, f"tools[{place}]", account) for place, raw in entries]
        labels = [choice.server.label for choice in choices]
        for (place, _), label in zip(entries, labels, strict=True):
            if labels.count(label) > 1:
                raise InvalidRequest(
                    f"Two MCP servers are called `{label}`: give each its own label.",
                    param=f"tools[{place}].server_label",
                )
        return choices

    def _choose(self, raw: Raw, param: str, account: str) -> McpChoice:
        try:
            entry = msgspec.json.decode(raw, type=_Entry)
        except (msgspec.DecodeError, RecursionError) as bad:
            raise InvalidRequest(f"`{param}`: {bad}", param=param) from None
        _refuse_unsupported(entry, param)
        secrets = _secrets(entry, param)
        configured = self._servers.get(entry.server_label)
        if configured is not None and not _may_use(configured, account):
            configured = None
        if entry.server_url is None:
            if configured is None:
                raise InvalidRequest(
                    f"No MCP server is called `{entry.server_label}` here. Use a label that the "
                    "operator has configured, or give `server_url`.",
                    param=f"{param}.server_label",
                )
            return _choice(entry, secrets, _operators(configured, account), configured)
        if configured is not None and entry.server_url == configured.url:
            return _choice(entry, secrets, _operators(configured, account), configured)
        self._check_url(entry.server_url, f"{param}.server_url")
        server = McpServer(label=entry.server_label, url=entry.server_url, account=account)
        return _choice(entry, secrets, server, None)

    def _check_url(self, url: str, param: str) -> None:
        """Refuse a URL that no caller may name. Its addresses are checked when it is used."""
        try:
            target = read_target(url)
            check_target(url, _PUBLIC)
        except InvalidRequest as wrong:
            raise InvalidRequest(wrong.message, param=param) from None
        if not target.is_tls:
            raise InvalidRequest("An MCP server's URL must begin with https://.", param=param)
        if _ANY_HOST not in self._hosts and target.host not in self._hosts:
            raise InvalidRequest(
                f"`{target.host}` is not a host that MCP servers may be at. Use a server that "
                "the operator has configured, or ask for this host to be allowed.",
                param=param,
            )


def _refuse_unsupported(entry: _Entry, param: str) -> None:
    for name in ("connector_id", "tunnel_id"):
        if getattr(entry, name) is not None:
            raise InvalidRequest(
                f"`{name}` is not supported here: name a server by `server_label` or `server_url`.",
                param=f"{param}.{name}",
            )
    if not is_label(entry.server_label):
        raise InvalidRequest(
            "`server_label` must be a letter and up to 63 letters, digits, `_` or `-`.",
            param=f"{param}.server_label",
        )


def _secrets(entry: _Entry, param: str) -> McpSecrets:
    headers = entry.headers or {}
    if problem := headers_problem(headers):
        raise InvalidRequest(f"`headers`: {problem}.", param=f"{param}.headers")
    token = entry.authorization or ""
    if not token:
        return McpSecrets(headers=headers)
    if any(name.lower() == "authorization" for name in headers):
        raise InvalidRequest(
            "Give `authorization` or an Authorization header, not both.",
            param=f"{param}.authorization",
        )
    if headers_problem({"authorization": f"Bearer {token}"}):
        raise InvalidRequest(
            "`authorization` must be one short line of printable ASCII.",
            param=f"{param}.authorization",
        )
    return McpSecrets(token, headers)


def _may_use(configured: McpServerSettings, account: str) -> bool:
    return not configured.accounts or account in configured.accounts


def _operators(configured: McpServerSettings, account: str) -> McpServer:
    return McpServer(label=configured.label, url=configured.url, account=account, is_operators=True)


def _choice(
    entry: _Entry, secrets: McpSecrets, server: McpServer, configured: McpServerSettings | None
) -> McpChoice:
    named = entry.allowed_tools
    return McpChoice(
        server=server,
        secrets=secrets,
        description=entry.server_description or "",
        allowed=ToolFilter(named) if isinstance(named, list) else named or ToolFilter(),
        approval=entry.require_approval or "always",
        operators_allowed=configured.allowed_tools if configured else (),
        operators_approval=configured.require_approval if configured else "never",
    )


def _is_demanded(tool: McpTool, demand: Approval | ApprovalFilters) -> bool:
    if not isinstance(demand, ApprovalFilters):
        return demand == "always"
    if demand.always is not None and demand.always.matches(tool):
        return True
    # A filter that names nothing exempts nothing.
    return demand.never is None or demand.never.is_empty or not demand.never.matches(tool)
