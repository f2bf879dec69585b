"""Short bodies of chats, read in little more than one pass instead of two.

To split a body into its fields, and then `messages` into messages, msgspec must skip every string
twice. Here `messages` is decoded first. Most clients write JSON without spaces, and so do we: the
messages written again are then the very bytes of the body, and only what stands around them is
split into fields. Whenever they are not the plain way is taken; tests compare both.

What stands around them is mostly what stood around those of an earlier body: its fields are kept,
and only what is between is decoded.
"""

from typing import Final

import msgspec
from msgspec import Raw

from penstock.wire.json_body import ARRAY_START, OBJECT_START, Fields, check_text, split_fields
from penstock.wire.parsed_body import ParsedBody
from penstock.wire.prompt_shapes import OnlyMessages

_NAME: Final = b'"messages":'
_NAME_BYTES: Final = len(b'"messages":')

# How many kinds of bodies are kept: callers of one kind send the same model and options. And how
# much of one: whoever sends long ones must not have us hold them.
_KEPT_MAX: Final = 16
_KEPT_BYTES_MAX: Final = 1024
_ARRAY_END: Final = ord("]")

_decode: Final = msgspec.json.Decoder(OnlyMessages).decode
_decode_messages: Final = msgspec.json.Decoder(list[Fields]).decode
_encode: Final = msgspec.json.encode


class _Around:
    """What stood before and behind the messages of a body, and what it says."""

    __slots__ = ("after", "before", "fields", "has_only_scalars")

    def __init__(self, before: bytes, after: bytes, fields: Fields, has_only_scalars: bool) -> None:
        self.before = before
        self.after = after
        self.fields = fields
        self.has_only_scalars = has_only_scalars


# The newest ones first.
_kept: Final[list[_Around]] = []


def read_short_chat(body: bytes) -> ParsedBody:
    """Split a body into its fields, and into its messages if that is as cheap."""
    check_text(body)
    parsed = _read_between(body)
    if parsed is None:
        parsed = _read_at_once(body)
    return ParsedBody(split_fields(body)) if parsed is None else parsed


def _read_between(body: bytes) -> ParsedBody | None:
    """If this stood around an array before, then whatever array is there now is the messages."""
    for around in _kept:
        if body.startswith(around.before) and body.endswith(around.after):
            break
    else:
        return None
    written = body[len(around.before) : len(body) - len(around.after)]
    # Without the spaces that may stand around it, as the plain way has it.
    if not written or written[0] != ARRAY_START or written[-1] != _ARRAY_END:
        return None
    try:
        messages = _decode_messages(written)
    except (msgspec.DecodeError, RecursionError):
        return None
    fields = around.fields.copy()
    fields["messages"] = Raw(written)
    parsed = ParsedBody(fields, messages)
    parsed.has_only_texts = _are_texts(messages, written)
    parsed.has_only_scalars = around.has_only_scalars
    return parsed


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
    if len(rest) <= _KEPT_BYTES_MAX:
        _kept.insert(0, _Around(body[:start], body[end:], fields.copy(), parsed.has_only_scalars))
        del _kept[_KEPT_MAX:]
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
