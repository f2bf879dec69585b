"""Runs the tool calls of one answer of the model, and reports them as items of the response."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from penstock.tools.mcp import McpFailure, McpServers, OfferedTool, call_error, result_text
from penstock.tools.mcp.result_text import failure_text, read_arguments
from penstock.turns.code_tool import CodeOutcome, TurnCode
from penstock.turns.plan import RunCalls
from penstock.turns.told_output import told_output
from penstock.turns.tool_offers import TurnTools
from penstock.wire.apis.chat_to_response import OpenItem
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.server_calls import ModelCall
from penstock.wire.apis.server_tools import ServerTool, code_in
from penstock.wire.apis.turn_composer import AskedCall, TurnComposer

_NOT_JSON: Final = "This call was not run: its arguments are no JSON object."
_NOT_JSON_CODE: Final = -32602
# What an item shows of a tool's output; the model is told less.
_SHOWN_BYTES_MAX: Final = 2**20
# What a tool answered is bounded where it is read.
_WHOLE: Final = 2**40


class McpOutcome(msgspec.Struct, frozen=True):
    """What came of one call of an MCP server's tool."""

    told: str
    output: str | None = None
    error: Item | None = None


class ToolCallSettings(msgspec.Struct, frozen=True):
    """How long a call may take, how many run at once, and how much the model is told of each."""

    call_seconds_max: float
    parallel_max: int
    output_bytes_max: int


class ToolCalls:
    """Runs calls. `code` is None where no sandbox runs code."""

    def __init__(
        self, code: TurnCode | None, servers: McpServers, settings: ToolCallSettings
    ) -> None:
        self._code = code
        self._servers = servers
        self._settings = settings

    async def run(
        self,
        action: RunCalls,
        tools: TurnTools,
        composer: TurnComposer,
        report: Callable[[], None],
    ) -> list[Item]:
        """Run what an answer asks for, in its order; return the files that code made."""
        step = _Step(tools, composer, asyncio.Semaphore(self._settings.parallel_max))
        for call, reason in action.refused:
            self._refuse(step, call, reason)
        running = [(call, await self._begin(step, call)) for call in action.run]
        report()
        outcomes = await self._run_all(step, running)
        files: list[Item] = []
        for (call, opened), outcome in zip(running, outcomes, strict=True):
            text = told_output(
                call.name, outcome.told, self._settings.output_bytes_max, tools.contract
            )
            told = ModelCall(call.id, call.name, call.arguments, text, composer.round)
            if isinstance(outcome, CodeOutcome):
                files += outcome.files
                # Another one than before, if that had just ended.
                opened.item["container_id"] = outcome.container or tools.container_id
                composer.end_code_call(opened, told, outcome.outputs, is_failed=outcome.is_failed)
            else:
                composer.end_mcp_call(opened, told, outcome.output, outcome.error)
        for call in action.approvals:
            function = tools.functions[call.name]
            composer.ask_approval(call, function.label, function.tool)
        report()
        return files

    async def _begin(self, step: "_Step", call: AskedCall) -> OpenItem:
        tools, composer = step.tools, step.composer
        function = tools.functions[call.name]
        if function.kind is ServerTool.MCP:
            approval = tools.approvals.get(call.id)
            return composer.begin_mcp_call(call, function.label, function.tool, approval)
        assert self._code is not None, "the function would not be offered"
        found = await self._code.container_for(tools)
        opened = composer.begin_code_call(tools.container_id, code_in(call.arguments))
        if isinstance(found, CodeOutcome):
            step.refusals[opened.place] = found
        return opened

    async def _run_all(
        self, step: "_Step", running: Sequence[tuple[AskedCall, OpenItem]]
    ) -> list[CodeOutcome | McpOutcome]:
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._run(step, *each)) for each in running]
        except BaseExceptionGroup as several:
            # The one that ended the others.
            raise several.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _run(
        self, step: "_Step", call: AskedCall, opened: OpenItem
    ) -> CodeOutcome | McpOutcome:
        offered = step.tools.mcp.find(call.name)
        if offered is not None:
            async with step.slots:
                return await self._call_server(offered, call)
        refusal = step.refusals.get(opened.place)
        if refusal is not None:
            return refusal
        assert self._code is not None, "the function would not be offered"
        # Calls share the container's variables: one after the other, as the model wrote them.
        async with step.turns:
            # By the item's id: some models number their calls anew in each answer, and a host runs
            # nothing for an id that it knows.
            return await self._code.run(step.tools, opened.item["id"], code_in(call.arguments))

    async def _call_server(self, offered: OfferedTool, call: AskedCall) -> McpOutcome:
        arguments, settings = read_arguments(call.arguments), self._settings
        if arguments is None:
            error = {"type": "mcp_protocol_error", "code": _NOT_JSON_CODE, "message": _NOT_JSON}
            return McpOutcome(_NOT_JSON, error=error)
        choice = offered.choice
        try:
            result = await self._servers.call(
                choice.server, choice.secrets, offered.tool, arguments, settings.call_seconds_max
            )
        except McpFailure as failure:
            return McpOutcome(failure_text(failure), error=call_error(failure, _SHOWN_BYTES_MAX))
        told = result_text(result, _WHOLE)
        if result.is_error:
            return McpOutcome(told, error=call_error(result, _SHOWN_BYTES_MAX))
        return McpOutcome(told, output=result_text(result, _SHOWN_BYTES_MAX))

    def _refuse(self, step: "_Step", call: AskedCall, reason: str) -> None:
        """Report a call that is not run: the model is told why."""
        composer, function = step.composer, step.tools.functions.get(call.name)
        told = ModelCall(call.id, call.name, call.arguments, reason, composer.round)
        if function is not None and function.kind is ServerTool.CODE_INTERPRETER:
            opened = composer.begin_code_call(step.tools.container_id, code_in(call.arguments))
            outputs: list[Item] = [{"type": "logs", "logs": reason}]
            composer.end_code_call(opened, told, outputs, is_failed=True)
            return
        label, tool = (function.label, function.tool) if function else ("", call.name)
        opened = composer.begin_mcp_call(call, label, tool, None)
        error = {"type": "mcp_protocol_error", "code": _NOT_JSON_CODE, "message": reason}
        composer.end_mcp_call(opened, told, None, error)


class _Step:
    """What the calls of one answer share."""

    def __init__(self, tools: TurnTools, composer: TurnComposer, slots: asyncio.Semaphore) -> None:
        self.tools = tools
        self.composer = composer
        self.slots = slots
        self.turns = asyncio.Lock()
        # Calls of code for which there is no container, by the places of their items.
        self.refusals: dict[int, CodeOutcome] = {}
