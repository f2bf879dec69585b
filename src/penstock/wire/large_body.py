"""Long prompts, read in one pass instead of two.

To split a body into its fields, and then `messages` into messages, msgspec must skip a megabyte of
strings twice: half of what a long prompt costs us. Here `messages` is decoded first, its place in
the body is found by the addresses of its first and last value, and only what stands around it is
split into fields. Whenever anything looks unusual the plain way is taken; tests compare them.
"""

import ctypes
import re
from typing import Final

import msgspec
from msgspec import Raw

from penstock.wire.json_body import Fields, check_text, read_fields
from penstock.wire.known_rest import split_around
from penstock.wire.parsed_body import ParsedBody
from penstock.wire.prompt_shapes import OnlyMessages

LARGE_BYTES: Final = 64 * 1024

_KEY_CHARS_MAX: Final = 200
# What stands between the array's bracket and the first value, and after the last value.
_START = re.compile(rb'\[\s*\{\s*"\w*"\s*:\s*')
_END = re.compile(rb"\s*(\})\s*\]")
_NEXT = re.compile(rb"\s*(\})\s*,")

_peek_decoder = msgspec.json.Decoder(OnlyMessages)


def read_body(body: bytes) -> ParsedBody:
    """Split a body into its fields; a long one in a single pass."""
    if len(body) >= LARGE_BYTES:
        commas = check_text(body)
        parsed = _read_at_once(body)
        if parsed is not None:
            parsed.commas = commas
            return parsed
    return ParsedBody(read_fields(body))


def _read_at_once(body: bytes) -> ParsedBody | None:
    messages = _peek(body)
    place = _place_of(messages, body)
    if messages is None or place is None:
        return None
    start, boundary, end = place
    fields = split_around(body, start, end)
    return ParsedBody(fields, messages, array_at=start, boundary=boundary)


def _peek(body: bytes) -> list[Fields] | None:
    try:
        return _peek_decoder.decode(body).messages
    except (msgspec.DecodeError, RecursionError):
        return None


def _place_of(messages: list[Fields] | None, body: bytes) -> tuple[int, int, int] | None:
    """Where the array begins, its last message ends, and it ends; None unless all are certain.

    A value is only followed by `}` and `]` if these close its object and the array, and only
    preceded by `[{"key":` if these open them: a string cannot stand in between.
    """
    if not messages or not messages[0] or not messages[-1]:
        return None
    base = _address(body)
    first = _address(next(iter(messages[0].values()))) - base
    last = next(reversed(messages[-1].values()))
    last_end = _address(last) - base + len(last)
    start = body.rfind(b"[", max(0, first - _KEY_CHARS_MAX), first)
    end = _END.match(body, last_end)
    if start < 0 or end is None or _START.fullmatch(body, start, first) is None:
        return None
    return start, end.end(1), end.end()


def end_of(message: Fields, messages: Raw) -> int | None:
    """Behind which byte of `messages` one of them ends; None unless another one follows."""
    if not message:
        return None
    last = next(reversed(message.values()))
    end = _NEXT.match(memoryview(messages), offset_of(last, messages) + len(last))
    return None if end is None else end.end(1)


def offset_of(part: Raw, whole: Raw) -> int:
    """Where a value begins in the one that it is a part of."""
    return _address(part) - _address(whole)


class _Buffer(ctypes.Structure):
    """CPython's Py_buffer (PEP 3118), of which only the address is read."""

    _fields_ = (
        ("buf", ctypes.c_void_p), ("obj", ctypes.c_void_p), ("len", ctypes.c_ssize_t),
        ("itemsize", ctypes.c_ssize_t), ("readonly", ctypes.c_int), ("ndim", ctypes.c_int),
        ("format", ctypes.c_void_p), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
        ("suboffsets", ctypes.c_void_p), ("internal", ctypes.c_void_p),
    )  # fmt: skip


_get_buffer = ctypes.pythonapi.PyObject_GetBuffer
_get_buffer.argtypes = [ctypes.py_object, ctypes.POINTER(_Buffer), ctypes.c_int]
_release = ctypes.pythonapi.PyBuffer_Release
_release.argtypes = [ctypes.POINTER(_Buffer)]
_release.restype = None


def _address(value: bytes | Raw) -> int:
    """Where a value's bytes are in memory: a Raw is a view into the body it was decoded from."""
    buffer = _Buffer()
    _get_buffer(value, ctypes.byref(buffer), 0)
    address = int(buffer.buf or 0)
    _release(ctypes.byref(buffer))
    return address
