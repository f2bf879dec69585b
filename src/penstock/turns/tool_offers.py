"""Finds the tools of a request that run here, and offers them to the model as functions."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from penstock.contracts.deciding import ContractDecision
from penstock.errors import InvalidRequest, MissingCapability, OutOfCapacity
from penstock.intake.contracted_tools import note_withheld, terms_of
from penstock.intake.opened_request import OpenedRequest
from penstock.records.account import AccountId
from penstock.records.tool_terms import mcp_name
from penstock.tools import AccountContainer, ContainerBook
from penstock.tools.container_book import no_such_container
from penstock.tools.container_ids import read_container_id, shown_container
from penstock.tools.mcp import (
    McpChoice,
    McpFailure,
    McpOffer,
    McpPolicy,
    McpServers,
    McpTool,
    offer_tools,
)
from penstock.wire.apis.response_items import Item, approval_requests
from penstock.wire.apis.server_calls import (
    APPROVAL_RESPONSE,
    CODE_CALL,
    CODE_OUTPUTS,
    MCP_CALL,
    call_of,
    is_stored,
)
from penstock.wire.apis.server_tools import (
    CodeTool,
    ServerFunction,
    ServerTool,
    ServerTools,
    callers_functions,
    python_function,
)
from penstock.wire.apis.turn_composer import AskedCall
from penstock.wire.json_body import Field, Fields

_TOOL_CALLS: Final = Field(
    "max_tool_calls",
    msgspec.json.Decoder(Annotated[int, Meta(ge=1)] | None),
    None,
)
_INCLUDE: Final = Field("include", msgspec.json.Decoder(list[str] | None), None)
_LISTED: Final = "mcp_list_tools"
# The name by which contracts know the code interpreter.
_CODE: Final = str(ServerTool.CODE_INTERPRETER)
_PYTHON: Final = (
    "Runs Python code and returns what it prints, the value of its last line, and the names of"
    " figures and files that it makes. Variables stay from call to call. Files are in /mnt/data."
    " numpy, pandas and matplotlib are installed. There is no network."
)


class ListedTools(msgspec.Struct, frozen=True):
    """The tools of an MCP server as a response shows them."""

    label: str
    tools: list[Item]
    error: str | None = None


class TurnTools(msgspec.Struct):
    """The tools of one turn that run here, by the names of their functions."""

    functions: dict[str, ServerFunction]
    account: AccountId
    # Those that may run: `allowed_tools` may leave some out.
    allowed: dict[str, ServerFunction] = {}
    # The chat request before its prompt was read, which changes it.
    chat: Fields = {}
    tool_calls_max: int | None = None
    # Whether the caller wants to see what code printed.
    has_outputs: bool = False
    # What the contract of the request decided; it may cut outputs.
    contract: ContractDecision | None = None
    code: CodeTool | None = None
    # The container that code runs in; None until one is needed.
    container: AccountContainer | None = None
    # The conversation had a container, and it has ended.
    is_state_lost: bool = False
    mcp: McpOffer = McpOffer(())
    # MCP servers by their labels.
    choices: dict[str, McpChoice] = {}
    lists: list[ListedTools] = []
    # Calls that the user has approved, and the ids of the requests for that, by the calls' ids.
    approved: list[AskedCall] = []
    approvals: dict[str, str] = {}

    def allow(self, chat: Fields) -> None:
        """Note which functions the model gets: it may call others that it knows by heart."""
        offered = msgspec.json.decode(chat["tools"]) if "tools" in chat else []
        names = {tool["function"]["name"] for tool in offered}
        self.allowed = {
            name: function for name, function in self.functions.items() if name in names
        }

    def shown(self, tools: Raw) -> Raw:
        """Return a request's tools as its response repeats them, without a server's address."""
        given: list[Item] = msgspec.json.decode(tools)
        echoes = [
            self.choices[tool["server_label"]].echo()
            if tool.get("type") == ServerTool.MCP
            else tool
            for tool in given
        ]
        return Raw(msgspec.json.encode(echoes))

    @property
    def has_own_container(self) -> bool:
        """Whether the caller named the container: no other may take its place."""
        return self.code is not None and isinstance(self.code.container, str)

    @property
    def container_id(self) -> str:
        """The id of its container as clients see it; "" if there is none."""
        return "" if self.container is None else shown_container(self.container.id)


class ToolOffers:
    """One per worker. Without containers there is no code interpreter."""

    def __init__(
        self,
        containers: ContainerBook | None,
        servers: McpServers,
        policy: McpPolicy,
        lists_at_once_max: int,
    ) -> None:
        self._containers = containers
        self._servers = servers
        self._policy = policy
        # Requests whose servers are asked for their tools: that is before any limit is looked at.
        self._listing = 0
        self._lists_at_once_max = lists_at_once_max

    async def offer(
        self, opened: OpenedRequest, tools: ServerTools, groups: Sequence[Sequence[Item]]
    ) -> TurnTools:
        """Return a request's tools that run here; `groups` has its context and its own input."""
        turn = TurnTools(
            {},
            opened.grant.account,
            code=tools.code,
            tool_calls_max=_TOOL_CALLS.read(opened.fields),
            has_outputs=CODE_OUTPUTS in (_INCLUDE.read(opened.fields) or ()),
            contract=opened.contract,
        )
        terms = terms_of(opened)
        if tools.code is not None and not (terms is not None and terms.forbids(_CODE)):
            function = python_function(_PYTHON, opened.model.python_pattern)
            if function.name in callers_functions(opened.fields):
                raise InvalidRequest(
                    f"`{function.name}` is the function of the code interpreter: give your own"
                    " another name.",
                    param="tools",
                )
            turn.functions[function.name] = function
            opened.name_tool(function.name, _CODE)
            await self._offer_code(turn, tools.code, groups)
        if tools.mcp:
            await self._offer_servers(turn, opened, tools.mcp, groups)
        return turn

    async def _offer_code(
        self, turn: TurnTools, code: CodeTool, groups: Sequence[Sequence[Item]]
    ) -> None:
        if self._containers is None:
            raise MissingCapability("No sandbox runs code here.", param="tools")
        if isinstance(code.container, str):
            id = read_container_id(code.container)
            if id is None:
                raise no_such_container()
            turn.container = await self._containers.find(turn.account, id)
            return
        latest = _latest_container(groups)
        id = None if latest is None else read_container_id(latest)
        if id is not None:
            turn.container = await self._containers.usable(turn.account, id)
            turn.is_state_lost = turn.container is None

    async def _offer_servers(
        self,
        turn: TurnTools,
        opened: OpenedRequest,
        entries: list[tuple[int, Raw]],
        groups: Sequence[Sequence[Item]],
    ) -> None:
        choices = self._policy.choose(entries, turn.account)
        turn.choices = {choice.server.label: choice for choice in choices}
        known = {
            str(item.get("server_label")): item
            for group in groups
            for item in group
            if item.get("type") == _LISTED and not item.get("error")
        }
        if self._listing >= self._lists_at_once_max:
            raise OutOfCapacity
        self._listing += 1
        try:
            listed = await asyncio.gather(
                *(self._list(choice, known.get(choice.server.label)) for choice in choices)
            )
        finally:
            self._listing -= 1
        turn.lists = [report for _, report in listed if report is not None]
        pairs = [
            (choice, _allowed_tools(opened, choice, tools))
            for choice, (tools, _) in zip(choices, listed, strict=True)
        ]
        turn.mcp = offer_tools(pairs, {*turn.functions, *callers_functions(opened.fields)})
        for each in turn.mcp.tools:
            turn.functions[each.function] = ServerFunction(
                name=each.function,
                kind=ServerTool.MCP,
                description=each.tool.description,
                parameters=msgspec.json.decode(each.tool.input_schema),
                label=each.choice.server.label,
                tool=each.tool.name,
                needs_approval=each.needs_approval,
            )
            opened.name_tool(each.function, mcp_name(each.choice.server.label, each.tool.name))
        _take_approvals(turn, groups)

    async def _list(
        self, choice: McpChoice, known: Item | None
    ) -> tuple[list[McpTool], ListedTools | None]:
        """Return a server's tools, from the conversation if it has them: the prompt stays the same.

        The second is what the response reports, if the server was asked.
        """
        if known is not None:
            return _known_tools(known), None
        label = choice.server.label
        try:
            tools = await self._servers.list_tools(choice.server, choice.secrets)
        except McpFailure as failure:
            return [], ListedTools(label, [], failure.message)
        return tools, ListedTools(label, [_shown(tool) for tool in tools if choice.offers(tool)])


def _allowed_tools(opened: OpenedRequest, choice: McpChoice, tools: list[McpTool]) -> list[McpTool]:
    """Return the tools that a request's contract lets run; others are never offered."""
    terms, label = terms_of(opened), choice.server.label
    if terms is None or opened.contract is None:
        return tools
    names = {tool.name: mcp_name(label, tool.name) for tool in tools if choice.offers(tool)}
    # A model may know one by heart.
    for tool, name in names.items():
        opened.name_tool(f"{label}__{tool}", name)
    forbidden = [name for name in names.values() if not terms.allows(name)]
    if forbidden:
        note_withheld(opened.contract, forbidden)
    return [tool for tool in tools if not terms.forbids(mcp_name(label, tool.name))]


def _take_approvals(turn: TurnTools, groups: Sequence[Sequence[Item]]) -> None:
    """Find the calls that the request's own input approves."""
    requests, used = approval_requests(groups), _used_approvals(groups)
    for at, item in enumerate(groups[-1]):
        if item.get("type") != APPROVAL_RESPONSE or not item.get("approve"):
            continue
        param, id = f"input.{at}.approval_request_id", str(item.get("approval_request_id"))
        if id in used:
            continue
        used.add(id)
        asked = requests.get(id)
        if asked is None:
            raise InvalidRequest("This names no request for approval.", param=param)
        call = call_of(asked)
        offered = turn.mcp.find(call.name)
        if offered is None:
            raise InvalidRequest("The tool of this request is not offered now.", param=param)
        if offered.choice.is_demanded_by_operator(offered.tool) and not is_stored(asked):
            raise InvalidRequest(
                "The operator demands approval of this call, so its request must be a stored one:"
                " go on from the response by `previous_response_id` or `conversation`.",
                param=param,
            )
        turn.approved.append(AskedCall(call.id, call.name, call.arguments))
        turn.approvals[call.id] = str(asked["id"])


def _used_approvals(groups: Sequence[Sequence[Item]]) -> set[str]:
    """Return the approvals whose calls were run: clients that keep the items send all again."""
    return {
        str(item.get("approval_request_id"))
        for group in groups
        for item in group
        if item.get("type") == MCP_CALL
    }


def _latest_container(groups: Sequence[Sequence[Item]]) -> str | None:
    found = [
        item["container_id"]
        for group in groups
        for item in group
        if item.get("type") == CODE_CALL and isinstance(item.get("container_id"), str)
    ]
    return found[-1] if found else None


def _shown(tool: McpTool) -> Item:
    hints = {"readOnlyHint": tool.is_read_only, "idempotentHint": tool.is_idempotent}
    return {
        "name": tool.name,
        "description": tool.description,
        "input_schema": msgspec.json.decode(tool.input_schema),
        "annotations": hints,
    }


def _known_tools(item: Item) -> list[McpTool]:
    """Return the tools of an item. A caller may have sent it, so nothing is taken for granted."""
    tools = item.get("tools")
    found = []
    for each in tools if isinstance(tools, list) else ():
        if not isinstance(each, dict) or not isinstance(each.get("name"), str):
            continue
        schema, hints = each.get("input_schema"), each.get("annotations")
        hints = hints if isinstance(hints, dict) else {}
        found.append(
            McpTool(
                name=each["name"],
                description=str(each.get("description") or ""),
                input_schema=Raw(msgspec.json.encode(schema if isinstance(schema, dict) else {})),
                is_read_only=hints.get("readOnlyHint") is True,
                is_idempotent=hints.get("idempotentHint") is True,
            )
        )
    return found
