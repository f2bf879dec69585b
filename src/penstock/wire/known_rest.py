"""What stands behind a known prompt, read as if the known messages were a single short one.

Whenever anything looks unusual the plain way is taken (`large_body.py`); tests compare them.
"""

import secrets
from typing import Final

import msgspec
from msgspec import Raw

from penstock.errors import InvalidRequest
from penstock.wire.json_body import COUNTED_BYTES, VALUES_MAX, Fields, check_text
from penstock.wire.known_prompt import KnownPrompt
from penstock.wire.parsed_body import ParsedBody
from penstock.wire.prompt_shapes import RawMessages

_SPACES: Final = b" \t\n\r"
# Stands for the known messages. Nobody can write it, so the array that begins with it is theirs,
# and not another one behind it: the last one counts.
_BEFORE: Final = b'{"messages":'
_KNOWN_ONE: Final = b'[{"%s":0}' % secrets.token_hex(16).encode()
_KNOWN: Final = _BEFORE + _KNOWN_ONE
_ARRAY_AT: Final = len(_BEFORE)

_raw_decoder: Final = msgspec.json.Decoder(RawMessages)
_messages_decoder: Final = msgspec.json.Decoder(list[Fields])
_fields_decoder: Final = msgspec.json.Decoder(Fields)


def read_rest(body: bytes, known: KnownPrompt) -> ParsedBody | None:
    """None when this is not simply a longer prompt: the plain way then says what it is.

    `known` is true of this body: all of its bytes up to the boundary are the same.
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
    boundary = _end_of_last(rest, end) + shift
    start = known.array_at
    fields = split_around(body, start, end + shift)
    return ParsedBody(fields, messages[1:], known, start, boundary, commas)


def split_around(body: bytes, start: int, end: int) -> Fields:
    """The fields of a body whose `messages` stand from `start` to `end`."""
    fields: Fields = _fields_decoder.decode(body[:start] + b"0" + body[end:])
    fields["messages"] = Raw(memoryview(body)[start:end])
    return fields


def _commas(body: bytes, known: KnownPrompt, rest: bytes) -> int:
    before = known.commas
    if before is None:
        before = body.count(b",", 0, known.boundary)
    return before + rest.count(b",")


def _end_of_last(text: bytes, end: int) -> int:
    """Behind the last object of the array that ends there."""
    at = end - len(b"]")
    while text[at - 1] in _SPACES:
        at -= 1
    return at
