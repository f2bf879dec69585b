"""Finds the results of tools in a request's messages, and replaces their texts. Pure.

Each API has its own shape for them. All other bytes of the messages stay as the caller wrote them.
"""

import json
import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from penstock.records.request import Api
from penstock.wire.json_body import ARRAY_START, ITEMS_MAX, Fields, first_byte

_TOOL_ROLES: Final = frozenset({"tool", "function"})
_OUTPUT_ITEMS: Final = frozenset({"function_call_output", "custom_tool_call_output"})
_CALL_ITEMS: Final = frozenset({"function_call", "custom_tool_call"})
_QUOTE: Final = ord('"')
_GAP: Final = re.compile(rb"[ \t\n\r,]*")
_NAME: Final = re.compile(rb'[ \t\n\r,]*"(?:[^"\\]++|\\.)*+"[ \t\n\r]*:[ \t\n\r]*', re.DOTALL)

_raws: Final = msgspec.json.Decoder(list[Raw])
_each: Final = msgspec.json.Decoder(list[Fields])
_texts: Final = msgspec.json.Decoder(str)
_encode: Final = msgspec.json.encode


class ResultEditor:
    """Decides what becomes of each result."""

    def edit(self, tool: str, content: Raw) -> bytes | None:
        """Return another content for a result of `tool`; None to let it be."""
        raise NotImplementedError


def edit_results(api: Api, fields: Fields, editor: ResultEditor, longer_than: int) -> Fields | None:
    """Return a request's fields with edited results; None if none was edited.

    Contents of at most `longer_than` bytes are not looked at. Tools are named by the calls that the
    results answer, else by the result; "" where neither names one.
    """
    conversation = _CONVERSATIONS.get(api)
    if conversation is None:
        return None
    name = conversation.field
    raw = fields.get(name)
    if raw is None or len(raw) <= longer_than or first_byte(raw) != ARRAY_START:
        return None
    edited = conversation(editor, longer_than).edited(raw)
    return None if edited is None else {**fields, name: Raw(edited)}


class _Conversation:
    """Edits the messages of a chat request. Other APIs have other shapes."""

    field = "messages"

    def __init__(self, editor: ResultEditor, longer_than: int) -> None:
        self._editor = editor
        self._longer_than = longer_than
        # Of the latest call with each id: some models number their calls anew in each answer.
        self._tools: dict[str, str] = {}

    def edited(self, raw: Raw) -> bytes | None:
        """Return an array with edited results; None if none was, or if its reader refuses it."""
        try:
            pieces = _raws.decode(raw)
            if len(pieces) > ITEMS_MAX or max(map(len, pieces), default=0) <= self._longer_than:
                return None
            new = {}
            for at, message in enumerate(_each.decode(raw)):
                self._note_calls(message)
                if len(pieces[at]) > self._longer_than:
                    edited = self._edited(pieces[at], message)
                    if edited is not None:
                        new[at] = edited
        except (ValueError, RecursionError):
            return None
        return _with_elements(bytes(raw), pieces, new) if new else None

    def _edited(self, raw: Raw, message: Fields) -> bytes | None:
        if _text(message, "role") not in _TOOL_ROLES:
            return None
        return self._with_result(raw, message, "content", "tool_call_id")

    def _with_result(self, raw: Raw, result: Fields, name: str, id: str) -> bytes | None:
        """Edit the member `name` of a result, which answers the call with its member `id`."""
        content = result.get(name)
        if content is None or len(content) <= self._longer_than:
            return None
        tool = self._tools.get(_text(result, id)) or _text(result, "name")
        edited = self._editor.edit(tool, content)
        return None if edited is None else _with_member(raw, result, name, edited)

    def _note_calls(self, message: Fields) -> None:
        calls = message.get("tool_calls")
        if calls is not None:
            self._note(_calls_in(calls))

    def _note(self, calls: list["_Call"]) -> None:
        for call in calls:
            if call.id:
                self._tools[call.id] = (call.function or call).name or ""


class _Items(_Conversation):
    """Edits the items of a Responses request."""

    field = "input"

    def _edited(self, raw: Raw, message: Fields) -> bytes | None:
        if _text(message, "type") not in _OUTPUT_ITEMS:
            return None
        return self._with_result(raw, message, "output", "call_id")

    def _note_calls(self, message: Fields) -> None:
        if _text(message, "type") in _CALL_ITEMS:
            self._note([_Call(id=_text(message, "call_id"), name=_text(message, "name"))])


class _Blocks(_Conversation):
    """Edits the blocks in the messages of a Messages request."""

    def _edited(self, raw: Raw, message: Fields) -> bytes | None:
        content = message.get("content")
        blocks = _list(content)
        if content is None or not blocks:
            return None
        pieces, new = _raws.decode(content), {}
        for at, block in enumerate(blocks):
            if len(pieces[at]) > self._longer_than and _text(block, "type") == "tool_result":
                edited = self._with_result(pieces[at], block, "content", "tool_use_id")
                if edited is not None:
                    new[at] = edited
        if not new:
            return None
        return _with_member(raw, message, "content", _with_elements(bytes(content), pieces, new))

    def _note_calls(self, message: Fields) -> None:
        content = message.get("content")
        if content is not None and _text(message, "role") == "assistant":
            self._note([block for block in _calls_in(content) if block.type == "tool_use"])


_CONVERSATIONS: Final[dict[Api, type[_Conversation]]] = {
    Api.CHAT: _Conversation,
    Api.RESPONSES: _Items,
    Api.MESSAGES: _Blocks,
}


class _Named(msgspec.Struct):
    name: str | None = None


class _Call(_Named):
    """A call of any API: its name is its own, or that of its function."""

    id: str | None = None
    type: str | None = None
    function: _Named | None = None


_calls_decoder: Final = msgspec.json.Decoder(list[_Call])


def _calls_in(raw: Raw) -> list[_Call]:
    """Return the calls in an array; none in another value, which an API's reader refuses."""
    try:
        return _calls_decoder.decode(raw) if first_byte(raw) == ARRAY_START else []
    except (ValueError, RecursionError):
        return []


def texts_of(content: Raw) -> list[str]:
    """Return the texts of a result: its content, or those among its parts."""
    if first_byte(content) == _QUOTE:
        return [_decoded(content)]
    return [_decoded(part["text"]) for part in _list(content) if _is_text(part)]


def with_texts(content: Raw, texts: Sequence[str | None]) -> bytes:
    """Return a result's content with other texts, one for each it has; None drops the part."""
    if first_byte(content) == _QUOTE:
        return _encode(texts[0])
    pieces, rest = [], iter(texts)
    for raw, part in zip(_raws.decode(content), _list(content), strict=True):
        if not _is_text(part):
            pieces.append(bytes(raw))
            continue
        text = next(rest)
        if text is not None:
            pieces.append(_with_member(raw, part, "text", _encode(text)))
    return b"[%s]" % b",".join(pieces)


def _list(raw: Raw | None) -> list[Fields]:
    """Return the objects of an array; none of another value, which an API's reader refuses."""
    if raw is None or first_byte(raw) != ARRAY_START:
        return []
    try:
        return _each.decode(raw)
    except msgspec.DecodeError:
        return []


def _is_text(part: Fields) -> bool:
    return "text" in part and first_byte(part["text"]) == _QUOTE


def _text(fields: Fields, name: str) -> str:
    raw = fields.get(name)
    return _decoded(raw) if raw is not None and first_byte(raw) == _QUOTE else ""


def _decoded(raw: Raw) -> str:
    try:
        return _texts.decode(raw)
    except msgspec.DecodeError:
        # Half of a surrogate pair, which other decoders of JSON take.
        text: str = json.loads(bytes(raw))
        return text.encode(errors="replace").decode()


def _with_elements(written: bytes, pieces: Sequence[Raw], new: dict[int, bytes]) -> bytes:
    """Return an array with other elements at some places."""
    parts, at, copied = [], 1, 0
    for number, piece in enumerate(pieces):
        start = _end_of(_GAP, written, at)
        at = start + len(piece)
        if number in new:
            parts += [written[copied:start], new[number]]
            copied = at
    return b"".join([*parts, written[copied:]])


def _with_member(raw: Raw, fields: Fields, name: str, value: bytes) -> bytes:
    """Return an object with another value of one member.

    One that gives a name twice is written anew: its last value counts, for engines too.
    """
    written, at, span = bytes(raw), 1, (0, 0)
    for each, old in fields.items():
        start = _end_of(_NAME, written, at)
        at = start + len(old)
        if written[start:at] != bytes(old):
            return _encode({**fields, name: Raw(value)})
        if each == name:
            span = (start, at)
    if written[_end_of(_GAP, written, at) :] != b"}":
        return _encode({**fields, name: Raw(value)})
    return b"".join((written[: span[0]], value, written[span[1] :]))


def _end_of(pattern: re.Pattern[bytes], written: bytes, at: int) -> int:
    found = pattern.match(written, at)
    return at if found is None else found.end()
