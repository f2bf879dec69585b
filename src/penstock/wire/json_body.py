"""Decodes a request's body once into top-level name → raw bytes; refuses what is not JSON.

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
# Values in one body. Ten million empty ones fit into 30 MB, and reading them takes seconds.
VALUES_MAX: Final = 400_000
# Values of shorter bodies are not counted: these cannot hold many more than that.
COUNTED_BYTES: Final = 512 * 1024
# Each of these is read by itself: top-level fields, and the items of lists that we read, such as
# messages, parts of a content, or tools.
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
_NO_SEPARATORS = bytes(b for b in range(256) if b not in b",[{")
# An opening bracket is one level up, a closing one a level down, as signed bytes.
_STEPS = bytes.maketrans(b"[]", b"\x01\xff")
# Up to so many brackets it is faster to remove them level by level than to add up levels.
_FEW_BRACKETS: Final = 4096
# Digests of long values that are not nested too deep; the allowed levels are part of the key.
_LONG_VALUE_BYTES: Final = 1024
_SHALLOW_MAX: Final = 1024
_SHALLOW_KEY: Final = secrets.randbits(62)
_shallow: Final[set[int]] = set()
_encode: Final = msgspec.json.encode
_fields_decoder: Final = msgspec.json.Decoder(Fields)


def read_fields(body: bytes) -> Fields:
    """Return the body's top-level fields. Of a name given twice only the last value is kept."""
    check_text(body)
    return split_fields(body)


def split_fields(body: bytes) -> Fields:
    """Return the top-level fields of a body that `check_text` has accepted."""
    try:
        return _fields_decoder.decode(body)
    except msgspec.ValidationError as bad:
        raise InvalidRequest(f"The body must be a JSON object: {bad}") from None
    except msgspec.DecodeError as bad:
        raise InvalidRequest(f"The body is not valid JSON: {bad}") from None
    except RecursionError:
        raise InvalidRequest(_too_deep()) from None


def check_text(body: bytes) -> int | None:
    """Refuse what cannot be JSON text, before it is parsed. Returns its values, if counted.

    A long body is read in short steps, between which other threads may run.
    """
    if not body:
        raise MissingBody
    if body.startswith(_BOM):
        raise InvalidRequest("The body starts with a byte order mark: send plain UTF-8.")
    if not body.isascii():
        _refuse_other_than_utf8(body)
    return _refuse_many(body) if len(body) > COUNTED_BYTES else None


def write_fields(fields: Fields) -> bytes:
    """Return the fields as one JSON object, each value as it came."""
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
    """Return how deep these are nested; it may stop counting one level above `levels_max`."""
    if len(brackets) > _FEW_BRACKETS:
        return max(accumulate(array("b", brackets.translate(_STEPS))))
    # The JSON is well-formed, so each round removes exactly the innermost level of every branch.
    for level in range(levels_max + 1):
        if not brackets:
            return level
        brackets = brackets.replace(b"[]", b"")
    return levels_max + 1


def refuse_deep_again(raw: Raw, *, levels_max: int, param: str) -> None:
    """Do the same as `refuse_deep`, but remember values that recur, such as an agent's tools."""
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
    """Return the brackets of arrays and objects, without those in strings, all as square ones.

    For an agent's tools this takes a tenth of the time of matching strings as they are written.
    """
    if value.find(b"\\") >= 0:
        # Without escaped backslashes, a backslash that is left escapes a quote, or does not matter.
        value = value.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A string without brackets is now two quotes; so may be one string's end and the next's start.
    found = value.translate(_ONE_BRACKET, _NO_BRACKETS_OR_QUOTES).replace(b'""', b"")
    return _PLAIN_STRING.sub(b"", found) if b'"' in found else found


def _refuse_many(body: bytes) -> int:
    """Refuse more than `VALUES_MAX` values. Return an upper bound of them.

    A count that takes in strings too comes first: to leave strings out takes three times as long,
    and few bodies need it.
    """
    values = 0
    for at in range(0, len(body), COUNTED_BYTES):
        values += len(body[at : at + COUNTED_BYTES].translate(None, _NO_SEPARATORS))
    return values if values <= VALUES_MAX else count_values(body)


def count_values(body: bytes) -> int:
    """Count values until there are too many: each follows a comma, or opens an array or object."""
    values = 0
    for outside in _outside_strings(body):
        values += len(outside.translate(None, _NO_SEPARATORS))
        if values > VALUES_MAX:
            raise InvalidRequest(f"The body has more than {VALUES_MAX} values.")
    return values


def _outside_strings(value: Raw | bytes) -> Iterator[bytes]:
    """Yield what is outside of strings, piece by piece.

    Quotes are bounded too: strings without a comma or a colon between them are no JSON, and nothing
    else would stop the reading early.
    """
    view, at, is_inside, quotes = memoryview(value), 0, False, 0
    while at < len(view):
        piece = bytes(view[at : at + _PIECE_BYTES])
        at += len(piece)
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        if backslashes % 2 and at < len(view):
            # The last backslash escapes the first byte of the next piece.
            piece = piece[: len(piece) - 1]
            at -= 1
        if piece.find(b'\\"') >= 0:
            # Without escaped backslashes, one that is left escapes a quote, or does not matter.
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        yield b"".join(parts[1::2] if is_inside else parts[::2])
        quotes += len(parts) - 1
        if quotes > 4 * VALUES_MAX:
            raise InvalidRequest(f"The body has more than {VALUES_MAX} values.")
        is_inside = quotes % 2 == 1
        # Lets other threads run, which compiled code does not do by itself.
        time.sleep(0)


def check_names(fields: Fields) -> None:
    """Refuse more than `FIELDS_MAX` fields, or names over `NAME_CHARACTERS_MAX`."""
    if len(fields) > FIELDS_MAX:
        raise InvalidRequest(f"The body has more than {FIELDS_MAX} fields.")
    if any([len(name) > NAME_CHARACTERS_MAX for name in fields]):
        raise InvalidRequest(f"A field's name has more than {NAME_CHARACTERS_MAX} characters.")


def check_items(items: list[Fields], param: str) -> None:
    """Refuse more than `ITEMS_MAX` messages, or more than `ITEM_NAMES_MAX` names in them."""
    check_count(len(items), param)
    if sum(map(len, items)) > ITEM_NAMES_MAX:
        raise InvalidRequest(f"`{param}` has more than {ITEM_NAMES_MAX} names.", param=param)


def check_count(count: int, param: str) -> None:
    """Refuse a list of more than `ITEMS_MAX` items."""
    if count > ITEMS_MAX:
        raise InvalidRequest(f"`{param}` has more than {ITEMS_MAX} items.", param=param)


def _refuse_other_than_utf8(body: bytes) -> None:
    """Refuse all but UTF-8. Decodes in pieces, which at 1 MB halves the time: no text is kept."""
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
    """Return whether a field is present and not null."""
    raw = fields.get(name)
    return raw is not None and (len(raw) != _NULL_BYTES or bytes(raw) != b"null")


def is_container(raw: Raw) -> bool:
    """Return whether this raw value is an object or an array, by its first byte."""
    return first_byte(raw) in (ARRAY_START, OBJECT_START)


def first_byte(raw: Raw) -> int:
    """Return the first byte of a value, which shows its kind."""
    return memoryview(raw)[0]


def given(raw: Raw | UnsetType) -> Raw | None:
    """Return the value, or None if absent or null. The type `Raw | None` would accept only null."""
    if raw is UNSET or bytes(raw) == b"null":
        return None
    return raw


def _too_deep() -> str:
    return f"The body is nested deeper than {DEPTH_MAX} levels."
