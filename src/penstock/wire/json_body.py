"""A request's body: decoded once into top-level name → raw bytes, refused when it is not JSON.

Values are kept as the caller wrote them (`msgspec.Raw`), so what goes upstream is what came in.
"""

import codecs
import re
import secrets
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
COUNTED_BYTES: Final = 2**20

ARRAY_START: Final = ord("[")
OBJECT_START: Final = ord("{")
_NULL_BYTES: Final = len(b"null")
_UTF8_PIECE: Final = 64 * 1024
_BOM: Final = b"\xef\xbb\xbf"
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_PLAIN_STRING = re.compile(rb'"[^"]*"')
_ONE_BRACKET = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS_OR_QUOTES = bytes(b for b in range(256) if b not in b'[]{}"')
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
    """Refuse what is no JSON text at all, before anything reads it. Its commas, if counted."""
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

    __slots__ = ("_decoder", "_default", "name")

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
    value = bytes(raw)
    if value.count(b"[") + value.count(b"{") <= levels_max:
        return
    brackets = _brackets(value)
    # The JSON is well-formed, so each round takes out exactly the innermost level of every branch.
    for _ in range(levels_max):
        brackets = brackets.replace(b"[]", b"")
        if not brackets:
            return
    raise InvalidRequest(_too_deep(), param=param)


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
    """Nearly every value is followed by a comma; those inside of texts are only counted twice."""
    commas = body.count(b",")
    if commas > VALUES_MAX and _STRING.sub(b"", body).count(b",") > VALUES_MAX:
        raise InvalidRequest(f"The body has more than {VALUES_MAX} values.")
    return commas


def _refuse_other_than_utf8(body: bytes) -> None:
    """In pieces: at 1 MB that halves the time, because no megabyte of text is written anywhere."""
    if len(body) <= _UTF8_PIECE:
        try:
            body.decode()
        except UnicodeDecodeError as bad:
            raise InvalidRequest(f"The body is not UTF-8 (byte {bad.start}).") from None
        return
    view, at = memoryview(body), 0
    while at < len(body):
        end = at + _UTF8_PIECE
        try:
            _, used = codecs.utf_8_decode(view[at:end], "strict", end >= len(body))
        except UnicodeDecodeError as bad:
            raise InvalidRequest(f"The body is not UTF-8 (byte {at + bad.start}).") from None
        at += used


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
