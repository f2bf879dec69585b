"""Takes calls out of chat answers, and puts a sentence into the place of each."""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from penstock.wire.apis.tool_call_deltas import data_of

_CALLED: Final = frozenset({"tool_calls", "function_call"})
_FUNCTION_CALL: Final = -1
_BETWEEN: Final = "\n\n"


class CallPlaces(NamedTuple):
    """What becomes of the calls of a stream, by choice and index.

    `place_of` gives a call's index among those that are left, None if it is taken out; `take_note`
    the sentence for that, once; `is_bare` says whether no call of a choice is left.
    """

    place_of: Callable[[int, int], int | None]
    take_note: Callable[[int, int], str]
    is_bare: Callable[[int], bool]


def event_without_calls(event: bytes, places: CallPlaces) -> bytes:
    """Return a chunk without the calls that are taken out; b"" if nothing of it is left."""
    chunk: dict[str, Any] = msgspec.json.decode(data_of(event))
    if not chunk.get("choices"):
        # Usage, or an error of the engine.
        return event
    chunk["choices"] = [each for each in chunk["choices"] if _choice_is_left(each, places)]
    return b"data: %s\n\n" % msgspec.json.encode(chunk) if chunk["choices"] else b""


def _choice_is_left(choice: dict[str, Any], places: CallPlaces) -> bool:
    at, delta = choice.get("index", 0), choice.get("delta") or {}
    notes: list[str] = []
    had_calls = bool(delta.get("tool_calls") or delta.get("function_call"))
    left = []
    for place, call in enumerate(delta.get("tool_calls") or ()):
        given = call.get("index")
        index = place if given is None else given
        new = places.place_of(at, index)
        if new is None:
            notes.append(places.take_note(at, index))
        else:
            left.append({**call, "index": new})
    if delta.get("tool_calls"):
        _replace(delta, "tool_calls", left)
    if delta.get("function_call") and places.place_of(at, _FUNCTION_CALL) is None:
        notes.append(places.take_note(at, _FUNCTION_CALL))
        del delta["function_call"]
    text = (delta.get("content") or "") + "".join(f"{note}\n" for note in notes if note)
    if text:
        delta["content"] = text
    choice["delta"] = delta
    if choice.get("finish_reason") in _CALLED and places.is_bare(at):
        choice["finish_reason"] = "stop"
    says_more = any(value for name, value in delta.items() if name != "role")
    return not had_calls or says_more or bool(choice.get("finish_reason"))


def answer_without_calls(answer: bytes, note_on: Callable[[str], str | None]) -> bytes:
    """Return a whole chat answer without the calls for whose tools there is a note."""
    completion: dict[str, Any] = msgspec.json.decode(answer)
    for choice in completion["choices"]:
        message = choice.get("message") or {}
        notes: list[str] = []
        left = []
        for call in message.get("tool_calls") or ():
            note = note_on(_name_of(call.get("function") or call.get("custom")))
            if note is None:
                left.append(call)
            else:
                notes.append(note)
        if message.get("tool_calls"):
            _replace(message, "tool_calls", left)
        called = message.get("function_call")
        note = note_on(_name_of(called)) if called else None
        if note is not None:
            notes.append(note)
            message["function_call"] = None
        if not notes:
            continue
        message["content"] = _BETWEEN.join([*filter(None, [message.get("content")]), *notes])
        if choice.get("finish_reason") in _CALLED and not left and not message.get("function_call"):
            choice["finish_reason"] = "stop"
    return msgspec.json.encode(completion)


def _replace(fields: dict[str, Any], name: str, left: list[Any]) -> None:
    if left:
        fields[name] = left
    else:
        del fields[name]


def _name_of(function: dict[str, Any] | None) -> str:
    return (function or {}).get("name") or ""
