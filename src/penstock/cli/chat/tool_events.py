"""Reads a streamed response line by line: text, code that runs, what it printed, and files."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from penstock.cli.chat.answer_events import AnswerEvents, Piece
from penstock.cli.chat.saved_files import CitedFile
from penstock.cli.exit_codes import CommandFailed
from penstock.wire.engine_usage import usage_of_response_event

_LINES_MAX: Final = 40
_CHARACTERS_MAX: Final = 4000
_CODE: Final = "code_interpreter_call"
_APPROVAL: Final = "mcp_approval_request"
_ENDS: Final = frozenset({"response.completed", "response.incomplete", "response.failed"})

Item = dict[str, Any]


class _Failure(msgspec.Struct, frozen=True):
    message: str = ""


class _Response(msgspec.Struct, frozen=True):
    error: _Failure | None = None


class _Event(msgspec.Struct, frozen=True):
    type: str = ""
    delta: str = ""
    code: str | None = None
    arguments: str = ""
    message: str = ""
    item: Item = {}
    annotation: Item = {}
    response: _Response = _Response()


_decoder = msgspec.json.Decoder(_Event)


class ToolEvents(AnswerEvents):
    """Yields the pieces of a response; `items`, `files` and `usage` grow with them."""

    def __init__(self, lines: Iterable[bytes]) -> None:
        super().__init__(lines)
        # The text of a message that has not ended, and the MCP tool that was named last.
        self._unended = ""
        self._called = ""
        self._items: list[Item] = []
        self.files: list[CitedFile] = []

    @property
    def items(self) -> list[Item]:
        """What the next request repeats: the items that ended, and text that was cut."""
        cut = [{"role": "assistant", "content": self._unended}] if self._unended else []
        return [*self._items, *cut]

    def _event(self, data: bytes) -> Iterator[Piece]:
        if data == b"[DONE]":
            return
        try:
            event = _decoder.decode(data)
        except msgspec.DecodeError:
            raise CommandFailed("This is not the stream of a response.") from None
        if event.type == "error" or event.response.error is not None:
            failure = event.response.error or _Failure(event.message)
            raise CommandFailed(f"The answer broke off: {failure.message}")
        if event.type in _ENDS:
            self._usage = usage_of_response_event(data)
        yield from self._pieces(event)

    def _pieces(self, event: _Event) -> Iterator[Piece]:
        match event.type:
            case "response.output_text.delta":
                self._unended += event.delta
                yield Piece(event.delta)
            case "response.reasoning_text.delta":
                yield Piece(event.delta, is_thought=True)
            case "response.code_interpreter_call_code.done":
                yield _block("runs Python", event.code or "")
            case "response.output_item.added":
                self._called = _tool_name(event.item)
            case "response.mcp_call_arguments.done":
                yield _block(f"calls {self._called}", event.arguments)
            case "response.output_item.done":
                yield from self._end(event.item)
            case "response.output_text.annotation.added":
                self._cite(event.annotation)

    def _end(self, item: Item) -> Iterator[Piece]:
        kind = item.get("type")
        if kind == _APPROVAL:
            # Left out of the next request: a chat without stored responses cannot approve it.
            name = _tool_name(item)
            yield _block(f"{name} was not called", "Its operator demands approval of each call.")
            return
        self._items.append(item)
        if kind == "message":
            self._unended = ""
        elif kind == _CODE:
            outputs = [each for each in item.get("outputs") or () if isinstance(each, dict)]
            yield _block("printed", "".join(str(each.get("logs", "")) for each in outputs))
        elif kind == "mcp_call":
            error = item.get("error")
            said = msgspec.json.encode(error).decode() if error else str(item.get("output") or "")
            yield _block("failed" if error else "gave", said)
        elif kind == "mcp_list_tools" and item.get("error"):
            yield _block(f"{item.get('server_label')} lists no tools", str(item["error"]))

    def _cite(self, annotation: Item) -> None:
        if annotation.get("type") != "container_file_citation":
            return
        try:
            self.files.append(msgspec.convert(annotation, CitedFile))
        except msgspec.ValidationError:
            raise CommandFailed("This is not the citation of a file.") from None


def _tool_name(item: Item) -> str:
    return f"{item.get('server_label')}.{item.get('name')}"


def _block(title: str, text: str) -> Piece:
    """Return a titled block, each line marked; only the beginning of a long one."""
    lines = text[:_CHARACTERS_MAX].rstrip("\n").split("\n")
    shown = lines[:_LINES_MAX]
    if len(lines) > _LINES_MAX or len(text) > _CHARACTERS_MAX:
        shown.append(f"… ({len(text):,} characters)")
    marked = "".join(f"│ {line}\n" for line in shown) if text.strip() else ""
    return Piece(f"▸ {title}\n{marked}", is_tool=True)
