"""Writes the end of a broken Responses stream: `response.failed`, matching what was sent before.

The response in it is the one that the stream began with, so that a client loses none of its fields.
"""

from typing import Final

import msgspec
from msgspec import Raw

_END: Final = b"\n\n"
_DATA: Final = b"\ndata:"


class _Opening(msgspec.Struct):
    response: dict[str, Raw]


class _Numbered(msgspec.Struct):
    sequence_number: int = -1


_opening_decoder = msgspec.json.Decoder(_Opening)
_numbered_decoder = msgspec.json.Decoder(_Numbered)


def failed_response(own_id: str, error: dict[str, str], first: bytes, last: bytes) -> bytes:
    """Return the end of a stream that began with `first` and had `last`; empty if none was sent.

    If none was sent, `response.created` comes first: openai's SDK does not accept the failure of a
    response that was never created.
    """
    response = _opened(first) or {
        "id": own_id, "object": "response", "output": [], "usage": None, "incomplete_details": None,
    }  # fmt: skip
    number = _number_of(last) + 1
    events = b""
    if not first:
        events = _event("response.created", {**response, "status": "in_progress"}, number)
        number += 1
    failed = {**response, "status": "failed", "error": error}
    return events + _event("response.failed", failed, number)


def _event(name: str, response: dict[str, object], number: int) -> bytes:
    data = {"type": name, "sequence_number": number, "response": response}
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def _opened(events: bytes) -> dict[str, object] | None:
    try:
        return dict(_opening_decoder.decode(_data(events.partition(_END)[0])).response)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _number_of(events: bytes) -> int:
    try:
        return _numbered_decoder.decode(_data(events[:-2].rpartition(_END)[2])).sequence_number
    except (msgspec.DecodeError, RecursionError):
        return -1


def _data(event: bytes) -> bytes:
    return event.partition(_DATA)[2]
