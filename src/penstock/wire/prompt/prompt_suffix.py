"""Parses only the messages after a known prefix, with one placeholder message for the prefix.

A body that looks unusual is read without the memory (`chat_body.py`); tests compare both.
"""

import secrets
from typing import Final

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.wire.json_body import COUNTED_BYTES, VALUES_MAX, Fields, check_text
from penstock.wire.prompt.known_prompt import KnownPrompt
from penstock.wire.prompt.parsed_body import ParsedBody
from penstock.wire.prompt.shapes import RawMessages

# The placeholder is random, so no caller can write it: the array that begins with it is the known
# one, not a later `messages`, which would replace it.
_BEFORE: Final = b'{"messages":'
_KNOWN_ONE: Final = b'[{"%s":0}' % secrets.token_hex(16).encode()
_KNOWN: Final = _BEFORE + _KNOWN_ONE
_ARRAY_AT: Final = len(_BEFORE)

_raw_decoder: Final = msgspec.json.Decoder(RawMessages)
_messages_decoder: Final = msgspec.json.Decoder(list[Fields])
_fields_decoder: Final = msgspec.json.Decoder(Fields)


def read_suffix(body: bytes, known: KnownPrompt) -> ParsedBody | None:
    """Read a body whose bytes up to the boundary are those of `known`.

    Return None when it is not simply a longer prompt: `chat_body.py` then reads it.
    """
    known_end = known.boundary
    rest = _KNOWN + body[known_end:]
    commas = None
    if len(body) > COUNTED_BYTES:
        commas = _commas(body, known, rest)
        if commas > VALUES_MAX:
            return None
    try:
        check_text(rest)
        raw: Raw = _raw_decoder.decode(rest).messages
        if bytes(memoryview(raw)[: len(_KNOWN_ONE)]) != _KNOWN_ONE:
            return None
        messages: list[Fields] = _messages_decoder.decode(raw)
    except (InvalidRequest, msgspec.DecodeError, RecursionError):
        return None
    end = _ARRAY_AT + len(raw)
    shift = known_end - len(_KNOWN)
    # Only spaces are between the last message and the end of the array.
    boundary = rest.rfind(b"}", 0, end) + 1 + shift
    start = known.array_at
    fields = _split_around(body, start, end + shift)
    return ParsedBody(fields, messages[1:], known, start, boundary, commas)


def _split_around(body: bytes, start: int, end: int) -> Fields:
    """Return the fields of a body whose `messages` are from `start` to `end`."""
    fields: Fields = _fields_decoder.decode(body[:start] + b"0" + body[end:])
    fields["messages"] = Raw(memoryview(body)[start:end])
    return fields


def _commas(body: bytes, known: KnownPrompt, rest: bytes) -> int:
    before = known.commas
    if before is None:
        before = body.count(b",", 0, known.boundary)
    return before + rest.count(b",")
