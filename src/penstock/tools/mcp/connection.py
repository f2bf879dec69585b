"""A connection to one server: finds its era, keeps its session, lists and calls its tools.

A server of the stateless revision answers `server/discover`; any other gets the older handshake.
A session that the server has forgotten, or an era that it no longer speaks, is renewed once.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw

from penstock.tools.mcp import messages
from penstock.tools.mcp.eras import Era, EraMemory
from penstock.tools.mcp.link import McpLink, McpReply
from penstock.tools.mcp.param_headers import param_headers
from penstock.tools.mcp.shapes import (
    FailureKind,
    McpFailure,
    McpResult,
    McpTool,
    protocol_failure,
)
from penstock.tools.settings import ToolsSettings

_VERSION: Final = "mcp-protocol-version"
_SESSION_CHARS_MAX: Final = 1024
_NOT_FOUND: Final = 404
# Statuses that say something of the caller, not of the protocol.
_OF_CALLERS: Final = frozenset({401, 403, 429})


class _Terms(msgspec.Struct, frozen=True, kw_only=True):
    """How the server is spoken to at present."""

    era: Era
    headers: dict[str, str]
    # Whether the server has shown in this connection that it speaks so; else it is a memory.
    is_tried: bool

    @property
    def has_session(self) -> bool:
        return "mcp-session-id" in self.headers


class McpConnection:
    """Speaks to one server until `close`. Calls may run at the same time."""

    def __init__(
        self, url: str, link: McpLink, *, eras: EraMemory, settings: ToolsSettings
    ) -> None:
        self._url = url
        self._link = link
        self._eras = eras
        self._settings = settings
        self._terms: _Terms | None = None
        self._agreeing = asyncio.Lock()

    @property
    def era(self) -> Era | None:
        return self._terms.era if self._terms else None

    async def list_tools(self) -> list[McpTool]:
        """Return the tools that the server lists, without those that cannot be offered."""
        tools: dict[str, McpTool] = {}
        cursor, listed = None, 0
        for _ in range(self._settings.mcp_pages_max):
            result = await self._ask("tools/list", {} if cursor is None else {"cursor": cursor})
            page = messages.decode(result, messages.ToolPage)
            listed += len(page.tools)
            if listed > self._settings.mcp_tools_max:
                raise protocol_failure(f"lists more than {self._settings.mcp_tools_max} tools")
            for raw in page.tools:
                tool = messages.read_tool(raw, self._settings.mcp_schema_bytes_max)
                if tool is not None:
                    tools.setdefault(tool.name, tool)
            if not page.cursor:
                return list(tools.values())
            cursor = page.cursor
        raise protocol_failure(f"lists its tools in more than {self._settings.mcp_pages_max} pages")

    async def call(self, tool: McpTool, arguments: Mapping[str, Any]) -> McpResult:
        """Call a tool. McpFailure if the server gives no result."""
        headers = {"mcp-name": messages.header_value(tool.name)}
        headers |= param_headers(tool.input_schema, arguments)
        asked = {"name": tool.name, "arguments": dict(arguments)}
        return messages.read_result(await self._ask("tools/call", asked, headers))

    async def close(self) -> None:
        """End the session, if there is one."""
        terms, self._terms = self._terms, None
        if terms is None or not terms.has_session:
            return
        try:
            async with asyncio.timeout(self._settings.mcp_close_seconds):
                await self._link.end(terms.headers)
        except TimeoutError:
            return

    async def _ask(
        self, method: str, params: dict[str, Any], headers: Mapping[str, str] | None = None
    ) -> Raw:
        terms = await self._agree()
        reply = await self._send(terms, method, params, headers or {})
        if _is_outdated(terms, reply):
            async with self._agreeing:
                # Another call may have renewed it already.
                if self._terms is terms:
                    self._terms = None
            if terms.era is Era.STATELESS:
                self._eras.drop(self._url)
            terms = await self._agree()
            reply = await self._send(terms, method, params, headers or {})
        result = reply.checked()
        if terms is self._terms and not terms.is_tried:
            self._terms = msgspec.structs.replace(terms, is_tried=True)
        return result

    async def _send(
        self, terms: _Terms, method: str, params: dict[str, Any], headers: Mapping[str, str]
    ) -> McpReply:
        if terms.era is Era.SESSIONS:
            return await self._link.ask(method, params, terms.headers)
        named = {**terms.headers, "mcp-method": method, **headers}
        return await self._link.ask(method, {**params, "_meta": messages.stateless_meta()}, named)

    async def _agree(self) -> _Terms:
        """Return how to speak to the server; ask it where that is not known."""
        async with self._agreeing:
            if self._terms is None:
                known = self._eras.get(self._url)
                if known is Era.STATELESS:
                    self._terms = _stateless(is_tried=False)
                else:
                    self._terms = await self._find_terms(known)
                    self._eras.put(self._url, self._terms.era)
            return self._terms

    async def _find_terms(self, known: Era | None) -> _Terms:
        if known is None and await self._is_stateless():
            return _stateless(is_tried=True)
        try:
            return await self._shake_hands()
        except McpFailure:
            # A server that had sessions may have been replaced.
            self._eras.drop(self._url)
            if known is Era.SESSIONS and await self._is_stateless():
                return _stateless(is_tried=True)
            raise

    async def _is_stateless(self) -> bool:
        """Ask a server to describe itself. Any answer but a good one means that it is older."""
        terms = _stateless(is_tried=False)
        try:
            reply = await self._send(terms, "server/discover", {}, {})
            found = messages.decode(reply.checked(), messages.Discovered)
        except McpFailure as failure:
            if not failure.may_have_run:
                # There is no connection: that says nothing of an era.
                raise
            return False
        return messages.STATELESS_VERSION in found.versions

    async def _shake_hands(self) -> _Terms:
        reply = await self._link.ask("initialize", messages.handshake(), {})
        answer = messages.decode(reply.checked(), messages.Initialized)
        if answer.version not in messages.HANDSHAKE_VERSIONS:
            raise protocol_failure("the server speaks no version of the protocol that is known")
        headers = {_VERSION: answer.version}
        if reply.session:
            if not _is_session_id(reply.session):
                raise protocol_failure("the server's session has no valid id")
            headers["mcp-session-id"] = reply.session
        await self._link.tell({"method": "notifications/initialized"}, headers)
        return _Terms(era=Era.SESSIONS, headers=headers, is_tried=True)


def _stateless(*, is_tried: bool) -> _Terms:
    headers = {_VERSION: messages.STATELESS_VERSION}
    return _Terms(era=Era.STATELESS, headers=headers, is_tried=is_tried)


def _is_outdated(terms: _Terms, reply: McpReply) -> bool:
    """Return whether the server refused how it was spoken to, so that nothing ran."""
    if terms.era is Era.SESSIONS:
        return terms.has_session and reply.status == _NOT_FOUND
    if reply.error is not None and reply.error.code == messages.UNSUPPORTED_VERSION:
        return True
    return not terms.is_tried and 400 <= reply.status < 500 and reply.status not in _OF_CALLERS


def _is_session_id(text: str) -> bool:
    return len(text) <= _SESSION_CHARS_MAX and all("!" <= each <= "~" for each in text)


def too_late(seconds: float) -> McpFailure:
    """Return the failure for a server that took longer than this."""
    return McpFailure(FailureKind.HTTP, 504, f"the server took longer than {seconds:g} s")
