"""Splits the body of a chat into its fields and its messages, in one pass over most bodies.

Decoding a body into its fields, and then `messages` into messages, makes msgspec skip every string
twice. Here `messages` is decoded first. Most clients write JSON without spaces: the messages
encoded again then equal the bytes of the body, which shows where the array ends, and only what
surrounds the array is decoded into fields. Any other body is read in two passes; tests compare
both.
"""

import re
from typing import Final

import msgspec
from msgspec import Raw

from penstock.wire.json_body import (
    ARRAY_START,
    OBJECT_START,
    Fields,
    check_items,
    check_text,
    split_fields,
)
from penstock.wire.prompt.parsed_body import ParsedBody
from penstock.wire.prompt.shapes import OnlyMessages, RawMessages

# Followed by a bracket: a tool before the messages may have a parameter of that name, an object.
_BEFORE_ARRAY: Final = re.compile(rb'"messages"[ \t\n\r]*:[ \t\n\r]*(?=\[)')
_ARRAY_END: Final = ord("]")

# How many kinds of bodies are kept: callers of one kind send the same model and options.
KEPT_MAX: Final = 16
# Longer surroundings are not kept, so that no caller fills the memory with them.
KEPT_BYTES_MAX: Final = 1024

_decode: Final = msgspec.json.Decoder(OnlyMessages).decode
_decode_raw: Final = msgspec.json.Decoder(RawMessages).decode
_decode_messages: Final = msgspec.json.Decoder(list[Fields]).decode
_encode: Final = msgspec.json.encode


class Around:
    """What surrounds the messages of a body: the bytes on both sides, and the fields in them."""

    def __init__(self, before: bytes, after: bytes, fields: Fields, has_only_scalars: bool) -> None:
        self.before = before
        self.after = after
        self.fields = fields
        self.has_only_scalars = has_only_scalars


class ChatBodyReader:
    """Keeps the surroundings of a few earlier bodies: most bodies repeat one of them."""

    def __init__(self) -> None:
        # The newest first.
        self.kept: list[Around] = []

    def read(self, body: bytes) -> ParsedBody:
        """Split a body into its fields, and into its messages if that is as cheap."""
        commas = check_text(body)
        parsed = self._read_between(body)
        if parsed is None:
            parsed = self._read_at_once(body)
        if parsed is None:
            parsed = ParsedBody(split_fields(body))
        parsed.commas = commas
        return parsed

    def _read_between(self, body: bytes) -> ParsedBody | None:
        """Decode only the messages of a body whose surroundings are kept.

        Surroundings that are valid JSON around one array are valid around any array.
        """
        for around in self.kept:
            if body.startswith(around.before) and body.endswith(around.after):
                break
        else:
            return None
        start, end = len(around.before), len(body) - len(around.after)
        # Spaces around the array would become part of the field, unlike in `split_fields`.
        if start >= end or body[start] != ARRAY_START or body[end - 1] != _ARRAY_END:
            return None
        try:
            messages = _decode_messages(memoryview(body)[start:end])
        except (msgspec.DecodeError, RecursionError):
            return None
        return _joined(body, around, messages)

    def _read_at_once(self, body: bytes) -> ParsedBody | None:
        """Decode the messages first; return None for an unusual or invalid body."""
        found = _BEFORE_ARRAY.search(body)
        if found is None:
            return None
        start = found.end()
        try:
            messages = _decode(body).messages
            # Checked before the messages are encoded again.
            check_items(messages, "messages")
            array = _encode(messages)
            if not body.startswith(array, start):
                # Written with spaces: a second pass finds the length of the array.
                array = bytes(_decode_raw(body).messages)
        except (msgspec.DecodeError, RecursionError):
            return None
        if not body.startswith(array, start):
            return None
        around = _split_around(body, start, start + len(array))
        if around is None:
            return None
        if len(around.before) + len(around.after) < KEPT_BYTES_MAX:
            self.kept.insert(0, around)
            del self.kept[KEPT_MAX:]
        return _joined(body, around, messages)


def _split_around(body: bytes, start: int, end: int) -> Around | None:
    """Return what surrounds the array at `start` to `end`; None if that is not `messages`."""
    before, after = body[:start], body[end:]
    rest = b"".join((before, b"0", after))
    fields = split_fields(rest)
    # Of a name that occurs twice, or deeper, the wrong value was cut out: an array is left here.
    if len(fields["messages"]) != 1:
        return None
    return Around(before, after, fields, _behind(fields, rest, 0) == len(rest))


def _joined(body: bytes, around: Around, messages: list[Fields]) -> ParsedBody:
    start, end = len(around.before), len(body) - len(around.after)
    fields = around.fields.copy()
    fields["messages"] = Raw(memoryview(body)[start:end])
    boundary = body.rfind(b"}", start, end) + 1
    parsed = ParsedBody(fields, messages, array_at=start, boundary=boundary)
    parsed.has_only_texts = _are_texts(messages, body, start, end)
    parsed.has_only_scalars = around.has_only_scalars
    return parsed


def _are_texts(messages: list[Fields], body: bytes, start: int, end: int) -> bool:
    """Return whether no value in these messages is an array or an object. False if unsure."""
    at = start + 1
    for message in messages:
        at = _behind(message, body, at) + 1
        if not at:
            return False
    # Spaces, a name with more bytes than characters, or an empty message make `at` too low.
    return at == end


def _behind(fields: Fields, written: bytes, at: int) -> int:
    """Return the end of an object written without spaces; -1 if it holds arrays or objects.

    Checks the first byte of each value, at the sum of the lengths before it. Where an object is
    written otherwise that offset is too low, and so is the end.
    """
    at += 1
    for name, value in fields.items():
        at += len(name) + 3
        if written[at] in (ARRAY_START, OBJECT_START):
            return -1
        at += len(value) + 1
    return at
