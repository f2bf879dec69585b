"""The output items of a `/v1/responses` answer: reasoning, text, and tool calls."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from penstock.testing.scripted_engine.engine_request import EngineRequest
from penstock.testing.scripted_engine.scripted_answers import ScriptedAnswer, ScriptedToolCall

_NAMESPACED = "__"
_PIECE_CHARACTERS = 4


class Item(msgspec.Struct, frozen=True):
    """One item; `pieces` are its deltas. Tool calls have a name and no content parts."""

    kind: str
    id: str
    pieces: list[str]
    call_id: str = ""
    name: str = ""
    namespace: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def is_call(self) -> bool:
        return bool(self.call_id)

    def opened(self) -> dict[str, Any]:
        """Return the item as a stream opens it, without content."""
        empty = msgspec.structs.replace(self, pieces=[])
        if self.kind == "message":
            return {**empty.closed(), "content": [], "status": "in_progress"}
        if self.kind == "reasoning":
            return {**empty.closed(), "content": None, "status": "in_progress"}
        opened = empty.closed()
        return {**opened, "status": "in_progress"} if "status" in opened else opened

    def closed(self, *, is_whole: bool = False) -> dict[str, Any]:
        """Return the complete item; reasoning in an answer that is not streamed has no status."""
        if self.kind == "message":
            content = [self.part(is_done=True)]
            start = {"id": self.id, "content": content, "role": "assistant", "status": "completed"}
            return {**start, "type": "message", "phase": None}
        if self.kind == "reasoning":
            start = {"id": self.id, "summary": [], "type": "reasoning"}
            content = [self.part(is_done=True)]
            status = None if is_whole else "completed"
            return {**start, "content": content, "encrypted_content": None, "status": status}
        rest = {"async": None, "caller": None, "namespace": self.namespace}
        if self.kind == "custom_tool_call":
            start = {"call_id": self.call_id, "input": self.text, "name": self.name}
            return {**start, "type": self.kind, "id": self.id, **rest}
        start = {"arguments": self.text, "call_id": self.call_id, "name": self.name}
        return {**start, "type": self.kind, "id": self.id, **rest, "status": "completed"}

    def part(self, *, is_done: bool) -> dict[str, Any]:
        """Return the item's one content part."""
        text = self.text if is_done else ""
        if self.kind == "reasoning":
            return {"text": text, "type": "reasoning_text"}
        start = {"annotations": [], "text": text, "type": "output_text"}
        return {**start, "logprobs": None if is_done else []}


def items_of(
    answer: ScriptedAnswer, request: EngineRequest, new_id: Callable[[], str]
) -> Iterator[Item]:
    """Yield an answer's items in vLLM's order; none for an empty answer."""
    if answer.reasoning:
        yield Item("reasoning", f"rs_{new_id()}", answer.reasoning)
    if any(answer.pieces):
        yield Item("message", f"msg_{new_id()}", answer.pieces)
    tools = {tool.get("name"): tool for tool in request.echo["tools"]}
    for call in answer.tool_calls:
        yield _call_item(call, tools, new_id)


def _call_item(call: ScriptedToolCall, tools: dict[Any, Any], new_id: Callable[[], str]) -> Item:
    call_id = f"chatcmpl-tool-{new_id()}"
    if tools.get(call.name, {}).get("type") == "custom":
        text = msgspec.json.decode("".join(call.pieces)).get("input", "")
        starts = range(0, len(text), _PIECE_CHARACTERS)
        pieces = [text[at : at + _PIECE_CHARACTERS] for at in starts]
        return Item("custom_tool_call", f"ctc_{new_id()}", pieces, call_id, call.name)
    namespace, mark, name = call.name.partition(_NAMESPACED)
    item_id = f"fc_{new_id()}"
    if mark and tools.get(namespace, {}).get("type") == "namespace":
        return Item("function_call", item_id, call.pieces, call_id, name, namespace)
    return Item("function_call", item_id, call.pieces, call_id, call.name)
