"""A request's body: decoded once into top-level name → raw bytes, refused when it is not JSON.

Values are kept as the caller wrote them (`msgspec.Raw`), so what goes upstream is what came in.
"""

import codecs
import re
import secrets
import time
from array import array
from collections.abc import Iterator
from itertools import accumulate
from typing import Final, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from penstock.errors import InvalidRequest, MissingBody
from penstock.wire.keyed_digest import HAS_SIPHASH, keyed_digest

Fields = dict[str, Raw]
T = TypeVar("T")

DEPTH_MAX: Final = 64
# Values in one body. Ten million empty ones fit into 30 MB, and to read them takes seconds.
VALUES_MAX: Final = 400_000
# What is shorter cannot hold many more than that.
COUNTED_BYTES: Final = 512 * 1024
# Each of these is looked at by itself: top-level fields, and whatever stands in a list that we
# read, such as messages, parts of a content, or tools.
FIELDS_MAX: Final = 1000
NAME_CHARACTERS_MAX: Final = 1024
ITEMS_MAX: Final = 10_000
# Names in all messages together: each costs a microsecond.
ITEM_NAMES_MAX: Final = 2 * ITEMS_MAX

ARRAY_START: Final = ord("[")
OBJECT_START: Final = ord("{")
_NULL_BYTES: Final = len(b"null")
_PIECE_BYTES: Final = 64 * 1024
_BOM: Final = b"\xef\xbb\xbf"
_PLAIN_STRING = re.compile(rb'"[^"]*"')
_ONE_BRACKET = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS_OR_QUOTES = bytes(b for b in range(256) if b not in b'[]{}"')
_NO_BRACKETS = bytes(b for b in range(256) if b not in b"[]{}")
# One level up, one level down, as signed bytes.
_STEPS = bytes.maketrans(b"[]", b"\x01\xff")
# So many brackets are taken out level by level in less time than they are added up.
_FEW_BRACKETS: Final = 4096
# Digests of long values that are not nested too deep, each with the levels it may have.
_LONG_VALUE_BYTES: Final = 1024
_SHALLOW_MAX: Final = 1024
_SHALLOW_KEY: Final = secrets.randbits(62)
_shallow: Final[set[int]] = set()
_encode: Final = msgspec.json.encode
_fields_decoder: Final = msgspec.json.Decoder(Fields)


def read_fields(body: bytes) -> Fields:
    """The body's top-level fields. A name given twice keeps its last value: none is doubled."""
    check_text(body)
    return split_fields(body)


def split_fields(body: bytes) -> Fields:
    """The same of a body whose text was checked."""
    try:
        return _fields_decoder.decode(body)
    except msgspec.ValidationError as bad:
        raise InvalidRequest(f"The body must be a JSON object: {bad}") from None
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"The body is not valid JSON: {bad}") from None
    except RecursionError:
        raise InvalidRequest(_too_deep()) from None


def check_text(body: bytes) -> int | None:
    """Refuse what is no JSON text at all, before anything reads it. Returns its values, if counted.

    Every step over a long body is a short one; between them other threads may run.
    """
    if not body:
        raise MissingBody
    if body.startswith(_BOM):
        raise InvalidRequest("The body starts with a byte order mark: send plain UTF-8.")
    if not body.isascii():
        _refuse_other_than_utf8(body)
    return _refuse_many(body) if len(body) > COUNTED_BYTES else None


def write_fields(fields: Fields) -> bytes:
    """The fields as one JSON object, each value as it came."""
    return _encode(fields)


class Field(Generic[T]):
    """A field that we read ourselves, strictly: vLLM takes `stream: 1`, we answer 400."""

    def __init__(self, name: str, decoder: msgspec.json.Decoder[T], default: T) -> None:
        self.name = name
        self._decoder = decoder
        self._default = default

    def read(self, fields: Fields) -> T:
        raw = fields.get(self.name)
        if raw is None:
            return self._default
        try:
            return self._decoder.decode(raw)
        except msgspec.DecodeError as bad:
            raise InvalidRequest(f"`{self.name}`: {bad}", param=self.name) from None
        except RecursionError:
            raise InvalidRequest(_too_deep(), param=self.name) from None


def refuse_deep(raw: Raw | bytes, *, levels_max: int, param: str) -> None:
    """Refuse a value nested deeper than `levels_max`. Cheap where there are few brackets."""
    if len(raw) > COUNTED_BYTES:
        outside = [text.translate(_ONE_BRACKET, _NO_BRACKETS) for text in _outside_strings(raw)]
        brackets = b"".join(outside)
    else:
        value = bytes(raw)
        if value.count(b"[") + value.count(b"{") <= levels_max:
            return
        brackets = _brackets(value)
    if _levels_of(brackets, levels_max) > levels_max:
        raise InvalidRequest(_too_deep(), param=param)


def _levels_of(brackets: bytes, levels_max: int) -> int:
    """How deep these are nested; counted no further than one level more than `levels_max`."""
    if len(brackets) > _FEW_BRACKETS:
        return max(accumulate(array("b", brackets.translate(_STEPS))))
    # The JSON is well-formed, so each round takes out exactly the innermost level of every branch.
    for level in range(levels_max + 1):
        if not brackets:
            return level
        brackets = brackets.replace(b"[]", b"")
    return levels_max + 1


def refuse_deep_again(raw: Raw, *, levels_max: int, param: str) -> None:
    """The same of a value that comes often, as an agent's tools do at every turn."""
    if len(raw) < _LONG_VALUE_BYTES or not HAS_SIPHASH:
        refuse_deep(raw, levels_max=levels_max, param=param)
        return
    digest = keyed_digest(_SHALLOW_KEY + levels_max, raw)
    if digest in _shallow:
        return
    refuse_deep(raw, levels_max=levels_max, param=param)
    if len(_shallow) >= _SHALLOW_MAX:
        _shallow.clear()
    _shallow.add(digest)


def _brackets(value: bytes) -> bytes:
    """Those that open and close arrays and objects, all as square ones.

    For an agent's tools this takes a tenth of the time of matching strings as they are written.
    """
    if value.find(b"\\") >= 0:
        # An escaped backslash escapes nothing; what is left escapes a quote, or does not matter.
        value = value.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Strings without brackets are two quotes by now; so may be the end of one and the next's start.
    found = value.translate(_ONE_BRACKET, _NO_BRACKETS_OR_QUOTES).replace(b'""', b"")
    return _PLAIN_STRING.sub(b"", found) if b'"' in found else found


def _refuse_many(body: bytes) -> int:
    """Count values until there are too many: each follows a comma, or opens an array or object."""
    values = 0
    for outside in _outside_strings(body):
        values += outside.count(b",") + outside.count(b"[") + outside.count(b"{")
        if values > VALUES_MAX:
            raise InvalidRequest(f"The body has more than {VALUES_MAX} values.")
    return values


def _outside_strings(value: Raw | bytes) -> Iterator[bytes]:
    """What stands outside of strings, piece by piece.

    Strings alone are too many values as well: where each is not followed by a comma or a colon this
    is no JSON, and nothing else would end the count early.
    """
    view, at, is_inside, quotes = memoryview(value), 0, False, 0
    while at < len(view):
        piece = bytes(view[at : at + _PIECE_BYTES])
        at += len(piece)
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        if backslashes % 2 and at < len(view):
            # The last one escapes the first byte of the next piece.
            piece = piece[: len(piece) - 1]
            at -= 1
        if piece.find(b'\\"') >= 0:
            # An escaped backslash escapes nothing; what is left escapes a quote, or is no matter.
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        yield b"".join(parts[1::2] if is_inside else parts[::2])
        quotes += len(parts) - 1
        if quotes > 4 * VALUES_MAX:
            raise InvalidRequest(f"The body has more than {VALUES_MAX} values.")
        is_inside = quotes % 2 == 1
        # Compiled code lets no other thread run by itself.
        time.sleep(0)


def check_names(fields: Fields) -> None:
    """Refuse more fields, or longer names, than anybody means."""
    if len(fields) > FIELDS_MAX:
        raise InvalidRequest(f"The body has more than {FIELDS_MAX} fields.")
    if any([len(name) > NAME_CHARACTERS_MAX for name in fields]):
        raise InvalidRequest(f"A field's name has more than {NAME_CHARACTERS_MAX} characters.")


def check_items(items: list[Fields], param: str) -> None:
    """Refuse more messages, or more names in them, than are looked at one by one."""
    check_count(len(items), param)
    if sum(map(len, items)) > ITEM_NAMES_MAX:
        raise InvalidRequest(f"`{param}` has more than {ITEM_NAMES_MAX} names.", param=param)


def check_count(count: int, param: str) -> None:
    """Refuse a list that is longer than what is looked at one by one."""
    if count > ITEMS_MAX:
        raise InvalidRequest(f"`{param}` has more than {ITEMS_MAX} items.", param=param)


def _refuse_other_than_utf8(body: bytes) -> None:
    """In pieces: at 1 MB that halves the time, because no megabyte of text is written anywhere."""
    if len(body) <= _PIECE_BYTES:
        try:
            body.decode()
        except UnicodeDecodeError as bad:
            raise InvalidRequest(f"The body is not UTF-8 (byte {bad.start}).") from None
        return
    view, at = memoryview(body), 0
    while at < len(body):
        end = at + _PIECE_BYTES
        try:
            _, used = codecs.utf_8_decode(view[at:end], "strict", end >= len(body))
        except UnicodeDecodeError as bad:
            raise InvalidRequest(f"The body is not UTF-8 (byte {at + bad.start}).") from None
        at += used
        if at > COUNTED_BYTES:
            time.sleep(0)


def is_given(fields: Fields, name: str) -> bool:
    """Whether a field is there and not null."""
    raw = fields.get(name)
    return raw is not None and (len(raw) != _NULL_BYTES or bytes(raw) != b"null")


def is_container(raw: Raw) -> bool:
    """Whether this raw value is an object or an array, by its first byte."""
    return first_byte(raw) in (ARRAY_START, OBJECT_START)


def first_byte(raw: Raw) -> int:
    """It tells what kind of value this is."""
    return memoryview(raw)[0]


def given(raw: Raw | UnsetType) -> Raw | None:
    """The value, or None if it is absent or null. In a type, `Raw | None` would take null alone."""
    if raw is UNSET or bytes(raw) == b"null":
        return None
    return raw


def _too_deep() -> str:
    return f"The body is nested deeper than {DEPTH_MAX} levels."
