"""Short bodies of chats, read in little more than one pass instead of two.

To split a body into its fields, and then `messages` into messages, msgspec must skip every string
twice. Here `messages` is decoded first. Most clients write JSON without spaces, and so do we: the
messages written again are then the very bytes of the body, and only what stands around them is
split into fields. Whenever they are not the plain way is taken; tests compare both.
"""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.wire.json_body import ARRAY_START, OBJECT_START, Fields, check_text, split_fields
from penstock.wire.parsed_body import ParsedBody
from penstock.wire.prompt_shapes import OnlyMessages

_NAME: Final = b'"messages":'
_NAME_BYTES: Final = len(b'"messages":')

_decode: Final = msgspec.json.Decoder(OnlyMessages).decode
_encode: Final = msgspec.json.encode


def read_short_chat(body: bytes) -> ParsedBody:
    """Split a body into its fields, and into its messages if that is as cheap."""
    check_text(body)
    parsed = _read_at_once(body)
    return ParsedBody(split_fields(body)) if parsed is None else parsed


def _read_at_once(body: bytes) -> ParsedBody | None:
    """None for what is written unusually, or wrong: the plain way then says what it is."""
    start = body.find(_NAME) + _NAME_BYTES
    if start < _NAME_BYTES:
        return None
    try:
        messages = _decode(body).messages
    except (msgspec.DecodeError, RecursionError):
        return None
    written = _encode(messages)
    end = start + len(written)
    if body[start:end] != written:
        return None
    rest = b"".join((body[:start], b"0", body[end:]))
    fields = split_fields(rest)
    # A name that stands twice, or deeper, has lost the wrong value: then an array is left here.
    if len(fields["messages"]) != 1:
        return None
    parsed = ParsedBody(fields, messages)
    parsed.has_only_texts = _are_texts(messages, written)
    parsed.has_only_scalars = _behind(fields, rest, 0) == len(rest)
    fields["messages"] = Raw(written)
    return parsed


def _are_texts(messages: list[Fields], written: bytes) -> bool:
    """Whether no value in these messages is an array or an object."""
    at = 1
    for message in messages:
        at = _behind(message, written, at) + 1
        if not at:
            return False
    # A name that is longer as it is written, or an empty message, puts all places wrong.
    return at == len(written)


def _behind(fields: Fields, written: bytes, at: int) -> int:
    """Where an object ends that begins here and is written without spaces; -1 if it holds others.

    By the first byte of each value, which stands where the lengths before it add up to. Where that
    is wrong it is too low, and so is the end.
    """
    at += 1
    for name, value in fields.items():
        at += len(name) + 3
        if written[at] in (ARRAY_START, OBJECT_START):
            return -1
        at += len(value) + 1
    return at
