"""Reads which tools one event of a stream calls, and which text it adds, in each API."""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from penstock.records.request import Api
from penstock.records.tool_terms import mcp_name

_BOM: Final = b"\xef\xbb\xbf"
_DATA: Final = b"data:"
_DONE: Final = b"[DONE]"
# The place of a call in the older form, which has one and no index.
_FUNCTION_CALL: Final = -1
_CALL: Final = "_call"
# The events of Responses that add to a call.
_CALL_PARTS: Final = (
    "response.function_call_arguments.", "response.custom_tool_call_input.",
    "response.mcp_call_arguments.",
)  # fmt: skip
_NAMESPACE: Final = "__"


class CallPiece(NamedTuple):
    """A part of one call. `is_whole` says that nothing is added to the name any more.

    `is_exact` is False where clients add up the names of several pieces.
    """

    choice: int
    # Its index among the calls of its choice, or its place in the output.
    at: int
    name: str
    is_whole: bool
    is_exact: bool = True


class TextPiece(NamedTuple):
    """Text of one choice. `is_repeat` marks text that earlier events have added piece by piece."""

    choice: int
    text: str
    is_repeat: bool = False


class EventPiece(NamedTuple):
    """What one event adds to an answer; `finished` are the choices that it ends."""

    calls: list[CallPiece]
    texts: list[TextPiece]
    finished: list[int]
    is_last: bool = False


NOTHING: Final = EventPiece([], [], [])
_END: Final = EventPiece([], [], [], is_last=True)


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None
    # The text of a custom tool.
    input: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    function: _Function | None = None
    custom: _Function | None = None


class _Delta(msgspec.Struct):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] = []


class ResponseItem(msgspec.Struct):
    """An item of Responses' output, as far as it may be a call or have text."""

    type: str = ""
    name: str | None = None
    namespace: str | None = None
    server_label: str | None = None
    content: Any = None


class ResponseOutput(msgspec.Struct):
    """A response, of which only the items are read."""

    output: list[ResponseItem] = []


class _ResponseEvent(msgspec.Struct):
    type: str = ""
    output_index: int = 0
    delta: Any = None
    text: str | None = None
    item: ResponseItem | None = None
    response: ResponseOutput | None = None


class MessageBlock(msgspec.Struct):
    """A block of a message's content, as far as it may be a call or have text."""

    type: str = ""
    name: str | None = None
    server_name: str | None = None
    text: str | None = None


class MessageContent(msgspec.Struct):
    """A message, of which only the content is read."""

    content: list[MessageBlock] = []


class _MessageEvent(msgspec.Struct):
    type: str = ""
    index: int = 0
    delta: MessageBlock | None = None
    content_block: MessageBlock | None = None
    message: MessageContent | None = None


_chunks = msgspec.json.Decoder(_Chunk)
_response_events = msgspec.json.Decoder(_ResponseEvent)
_message_events = msgspec.json.Decoder(_MessageEvent)


def read_event(api: Api, event: bytes) -> EventPiece | None:
    """Return what an event adds; None if it cannot be read."""
    data = data_of(event)
    if not data:
        return NOTHING
    if data == _DONE:
        return _END
    try:
        return _READERS.get(api, _read_chunk)(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def data_of(event: bytes) -> bytes:
    """Return the data of an event, which may have other lines too. All ends of lines count."""
    written = event.removeprefix(_BOM).splitlines()
    lines = [line for line in written if line.startswith(_DATA)]
    return b"\n".join([line[len(_DATA) :] for line in lines]).strip()


def name_of_item(item: ResponseItem) -> str | None:
    """Return the name by which contracts know what an item calls; None if it calls nothing."""
    if item.server_label is not None and item.type in ("mcp_call", "mcp_approval_request"):
        return mcp_name(item.server_label, item.name or "") if item.name else ""
    if not item.type.endswith(_CALL):
        return None
    if item.namespace and item.name:
        return f"{item.namespace}{_NAMESPACE}{item.name}"
    if item.name is not None or item.type in ("function_call", "custom_tool_call"):
        return item.name or ""
    # A hosted tool, such as `web_search_call`, has no other name than its type.
    return item.type.removesuffix(_CALL)


def name_of_block(block: MessageBlock) -> str | None:
    """Return the name by which contracts know what a block calls; None if it calls nothing."""
    if not block.type.endswith("tool_use"):
        return None
    if block.server_name and block.name:
        return mcp_name(block.server_name, block.name)
    return block.name or ""


def texts_of_item(item: ResponseItem) -> Iterator[str]:
    parts = item.content if isinstance(item.content, list) else []
    for part in parts if item.type == "message" else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]


def _read_chunk(data: bytes) -> EventPiece:
    calls: list[CallPiece] = []
    texts, finished = [], []
    for choice in _chunks.decode(data).choices:
        found = [choice.text]
        for delta in filter(None, (choice.delta, choice.message)):
            calls += _calls_of(choice.index, delta)
            found += (delta.content, delta.refusal)
        texts += [TextPiece(choice.index, text) for text in found if text]
        if choice.finish_reason:
            finished.append(choice.index)
    return EventPiece(calls, texts, finished)


def _calls_of(choice: int, delta: _Delta) -> Iterator[CallPiece]:
    for place, call in enumerate(delta.tool_calls or ()):
        index = place if call.index is None else call.index
        # With both, clients may take either: it has no name then.
        is_twofold = call.function is not None and call.custom is not None
        function = None if is_twofold else call.function or call.custom
        yield _piece(choice, index, function or _Function())
    if delta.function_call is not None:
        yield _piece(choice, _FUNCTION_CALL, delta.function_call)


def _piece(choice: int, index: int, function: _Function) -> CallPiece:
    is_whole = bool(function.arguments or function.input)
    return CallPiece(choice, index, function.name or "", is_whole, is_exact=False)


def _read_response_event(data: bytes) -> EventPiece:
    event = _response_events.decode(data)
    calls, texts = [], []
    items = [] if event.item is None else [(event.output_index, event.item)]
    if event.response is not None:
        items += list(enumerate(event.response.output))
    for place, item in items:
        name = name_of_item(item)
        if name is not None:
            calls.append(CallPiece(0, place, name, is_whole=True))
        texts += [TextPiece(place, text, is_repeat=True) for text in texts_of_item(item)]
    if event.type.startswith(_CALL_PARTS):
        calls.append(CallPiece(0, event.output_index, "", is_whole=True))
    if event.type == "response.output_text.delta" and isinstance(event.delta, str):
        texts.append(TextPiece(event.output_index, event.delta))
    return EventPiece(calls, texts, [])


def _read_message_event(data: bytes) -> EventPiece:
    event = _message_events.decode(data)
    calls, texts = [], []
    blocks = [] if event.content_block is None else [(event.index, event.content_block)]
    if event.message is not None:
        blocks += list(enumerate(event.message.content))
    for place, block in blocks:
        name = name_of_block(block)
        if name is not None:
            calls.append(CallPiece(0, place, name, is_whole=True))
        if block.type == "text" and block.text:
            texts.append(TextPiece(place, block.text))
    if event.delta is not None and event.delta.type == "input_json_delta":
        calls.append(CallPiece(0, event.index, "", is_whole=True))
    if event.delta is not None and event.delta.type == "text_delta" and event.delta.text:
        texts.append(TextPiece(event.index, event.delta.text))
    return EventPiece(calls, texts, [])


_READERS: Final[dict[Api, Callable[[bytes], EventPiece]]] = {
    Api.RESPONSES: _read_response_event,
    Api.MESSAGES: _read_message_event,
}
