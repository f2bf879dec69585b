"""Composes one response from several chat answers, with the tool calls that run in between. Pure.

To a client a turn is one response: one id, numbers and places without gaps, usage summed up. Calls
of tools that run here become items of their own kinds instead of function calls.
"""

from collections.abc import Callable, Collection
from typing import Any, Final

import msgspec

from penstock.wire.apis.chat_to_response import (
    INCOMPLETE,
    CallDelta,
    ChatUsage,
    FunctionDelta,
    OpenItem,
    ResponseComposer,
    counts,
)
from penstock.wire.apis.response_items import Item
from penstock.wire.apis.response_object import Response
from penstock.wire.apis.server_calls import (
    APPROVAL_REQUEST,
    CODE_CALL,
    MCP_CALL,
    ModelCall,
    remembering,
)

_CITED_MAX: Final = 20


class AskedCall(msgspec.Struct, frozen=True):
    """A call of a function that runs here, as the model wrote it."""

    id: str
    name: str
    arguments: str


class ChatAnswer(msgspec.Struct, frozen=True):
    """What one answer of the model asks for. `finish` is the engine's reason for its end."""

    calls: list[AskedCall]
    has_client_calls: bool
    finish: str


class TurnComposer(ResponseComposer):
    """A composer for several answers. `names` are the functions that run here."""

    def __init__(
        self,
        response: Response,
        now: Callable[[], float],
        names: Collection[str],
        *,
        has_outputs: bool,
    ) -> None:
        super().__init__(response, now)
        self._names = frozenset(names)
        self._has_outputs = has_outputs
        self._asked: dict[int, tuple[str, str, list[str]]] = {}
        # Also if text came after them, which ends their items.
        self._has_client_calls = False
        self._used: list[Item] = []
        self._latest: Item | None = None
        # Items of calls that run now, by their places.
        self._running: dict[int, OpenItem] = {}
        # What is stored of each call that ran, by its place.
        self._calls_made: dict[int, ModelCall] = {}
        # What was printed, by its place: stored, but shown only to those who ask.
        self._outputs: dict[int, list[Item] | None] = {}
        self.round = 0

    def asked(self) -> ChatAnswer:
        """Return what the answer asks for that the model has just given."""
        calls = [AskedCall(id, name, "".join(pieces)) for id, name, pieces in self._asked.values()]
        return ChatAnswer(calls, self._has_client_calls, self._finish)

    def close_answer(self) -> None:
        """End the items of an answer; a new one may follow."""
        self._end_items("incomplete" if self._finish in INCOMPLETE else "completed")
        self._asked.clear()
        self._has_client_calls = False
        if self._latest is not None:
            self._used.append(self._latest)
            self._latest = None
        self.round += 1

    def cut(self) -> None:
        """Note that the response has used up its tokens."""
        self._finish = "length"

    def written(self) -> bytes:
        """Return the events since the last call of a method that returns some."""
        self._begin()
        return self._written()

    def begin_code_call(self, container: str, code: str) -> OpenItem:
        """Report a call of the code interpreter up to the moment when it runs."""
        opened = self._begin_item(
            "ci",
            type=CODE_CALL,
            status="in_progress",
            code="",
            container_id=container,
            outputs=None,
        )
        self._running[opened.place] = opened
        opened.item["code"] = code
        self._event("response.code_interpreter_call.in_progress", opened)
        self._event("response.code_interpreter_call_code.delta", opened, delta=code)
        self._event("response.code_interpreter_call_code.done", opened, code=code)
        self._event("response.code_interpreter_call.interpreting", opened)
        return opened

    def end_code_call(
        self, opened: OpenItem, call: ModelCall, outputs: list[Item], *, is_failed: bool
    ) -> None:
        """Report what a call of the code interpreter put out."""
        self._calls_made[opened.place] = call
        self._outputs[opened.place] = outputs
        if self._has_outputs:
            opened.item["outputs"] = outputs
        del self._running[opened.place]
        self._event("response.code_interpreter_call.completed", opened)
        self._end_item(opened, "failed" if is_failed else "completed")

    def list_tools(self, label: str, tools: list[Item], error: str | None) -> None:
        """Report the tools of an MCP server."""
        opened = self._begin_item("mcpl", type="mcp_list_tools", server_label=label, tools=[])
        self._event("response.mcp_list_tools.in_progress", opened)
        opened.item["tools"] = tools
        if error is not None:
            opened.item["error"] = error
        self._event(f"response.mcp_list_tools.{'completed' if error is None else 'failed'}", opened)
        self._done(opened)

    def ask_approval(self, call: AskedCall, label: str, tool: str) -> None:
        """Report a call that its user has to approve."""
        opened = self._begin_item(
            "mcpr",
            type=APPROVAL_REQUEST,
            server_label=label,
            name=tool,
            arguments=call.arguments,
        )
        self._calls_made[opened.place] = ModelCall(call.id, call.name, call.arguments)
        self._done(opened)

    def begin_mcp_call(
        self, call: AskedCall, label: str, tool: str, approval: str | None
    ) -> OpenItem:
        """Report a call of an MCP server's tool up to the moment when it runs."""
        opened = self._begin_item(
            "mcp",
            type=MCP_CALL,
            status="in_progress",
            server_label=label,
            name=tool,
            arguments="",
            output=None,
            error=None,
            approval_request_id=approval,
        )
        self._running[opened.place] = opened
        self._event("response.mcp_call.in_progress", opened)
        self._event("response.mcp_call_arguments.delta", opened, delta=call.arguments)
        self._event("response.mcp_call_arguments.done", opened, arguments=call.arguments)
        opened.item["arguments"] = call.arguments
        return opened

    def end_mcp_call(
        self, opened: OpenItem, call: ModelCall, output: str | None, error: Item | None
    ) -> None:
        """Report what a call of an MCP server's tool gave."""
        self._calls_made[opened.place] = call
        del self._running[opened.place]
        opened.item["output"], opened.item["error"] = output, error
        how = "completed" if error is None else "failed"
        self._event(f"response.mcp_call.{how}", opened)
        self._end_item(opened, how)

    def stored(self) -> Response:
        """Return the response as it is stored: with each call as the model wrote it."""
        output = []
        for place, item in enumerate(self.response["output"]):
            call = self._calls_made.get(place)
            kept = {**item, "outputs": self._outputs[place]} if place in self._outputs else item
            output.append(kept if call is None else remembering(kept, call))
        return {**self.response, "output": output}

    def cite(self, files: list[Item]) -> None:
        """Name the files that the turn made in the message that is being written."""
        opened = self._open
        if opened is None or opened.item["type"] != "message":
            return
        for at, file in enumerate(files[:_CITED_MAX]):
            part = opened.item["content"][0]
            part["annotations"].append(file)
            self._event(
                "response.output_text.annotation.added",
                opened,
                content_index=0,
                annotation_index=at,
                annotation=file,
            )

    def _begin_item(self, prefix: str, **fields: object) -> OpenItem:
        # Tools may be listed, or run, before the model is asked.
        self._begin()
        return super()._begin_item(prefix, **fields)

    def _end_items(self, status: str) -> None:
        super()._end_items(status)
        for opened in self._running.values():
            self._end_item(opened, "incomplete")
        self._running.clear()

    def _done(self, opened: OpenItem) -> None:
        """End an item whose kind has no status."""
        fields = {"output_index": opened.place, "item": opened.item}
        self._write("response.output_item.done", fields)

    def _note_usage(self, usage: ChatUsage) -> None:
        self._latest = counts(usage)
        self.response["usage"] = _summed([*self._used, self._latest])

    def _add_call(self, delta: CallDelta, index: int) -> None:
        function = delta.function or FunctionDelta()
        asked = self._asked.get(index)
        if asked is None and (index in self._calls or function.name not in self._names):
            self._has_client_calls = True
            super()._add_call(delta, index)
            return
        if asked is None:
            self._end_open("completed")
            made = f"call_{self._key}r{self.round}c{index}"
            asked = self._asked[index] = (delta.id or made, function.name or "", [])
        if function.arguments:
            asked[2].append(function.arguments)


def _summed(counted: list[Item]) -> dict[str, Any]:
    """Add up usage: every number, also of the details."""
    total: dict[str, Any] = {}
    for each in counted:
        for name, value in each.items():
            if isinstance(value, dict):
                total[name] = _summed([total.get(name, {}), value])
            else:
                total[name] = total.get(name, 0) + value
    return total
