"""Cuts JSON so that it stays JSON: long arrays, objects and strings lose their middles. Pure.

Keys keep their order, and numbers their spelling.
"""

from collections.abc import Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from penstock.contracts.cutting.shares import shares

LEFT_OUT: Final = "_left_out"
# Every value can be said in so many bytes, if only by how much of it is left out.
LEAST_BYTES: Final = 64
# Elements of an array are not made shorter than this part of it: rather fewer are kept.
_ELEMENT: Final = 8
# Of values that are nested deeper only a mark is kept: each level is read again.
_DEPTH_MAX: Final = 16
# Reading more values than this would stop all other requests of the worker for too long.
_VALUES_MAX: Final = 100_000
_ARRAY: Final = ord("[")
_OBJECT: Final = ord("{")
_QUOTE: Final = ord('"')
_BRACKETS: Final = 2

_value: Final = msgspec.json.Decoder(Raw)
_elements: Final = msgspec.json.Decoder(list[Raw])
_members: Final = msgspec.json.Decoder(dict[str, Raw])
_string: Final = msgspec.json.Decoder(str)
_encode: Final = msgspec.json.encode
T = TypeVar("T")


def cut_json(data: bytes, room: int, tail_share: float) -> bytes | None:
    """Return JSON of at most `room` bytes, which are `LEAST_BYTES` or more.

    Return None for what is not JSON, or may have more values than are read here.
    """
    if data.lstrip()[:1] not in (b"[", b"{") or data.count(b",") > _VALUES_MAX:
        return None
    try:
        # Without spaces between values, which may be enough.
        written = msgspec.json.format(data, indent=-1)
        _value.decode(written)
        return _Cut(tail_share).value(written, room, 0)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


class _Cut:
    def __init__(self, tail_share: float) -> None:
        self._tail_share = tail_share

    def value(self, raw: bytes, room: int, depth: int) -> bytes:
        """Return a value in at most `room` bytes."""
        if len(raw) <= room:
            return raw
        if raw[0] == _QUOTE:
            return self._text(_string.decode(raw), room)
        if depth < _DEPTH_MAX and raw[0] == _ARRAY:
            return self._array(_elements.decode(raw), room, depth + 1)
        if depth < _DEPTH_MAX and raw[0] == _OBJECT:
            return self._object(_members.decode(raw), room, depth + 1)
        return _encode(_mark(len(raw)))

    def _text(self, text: str, room: int) -> bytes:
        whole = _encode(text)
        if len(whole) <= room:
            # It was written with more escapes than it needs.
            return whole
        # The mark is at its longest if all is left out.
        space = room - len(_encode(_mark(len(whole))))
        tail_room = int(space * self._tail_share)
        head, tail = _head(text, space - tail_room), _tail(text, tail_room)
        left_out = len(text[len(head) : len(text) - len(tail)].encode())
        return _encode(f"{head}{_mark(left_out)}{tail}")

    def _array(self, elements: Sequence[Raw], room: int, depth: int) -> bytes:
        room -= len(_count(LEFT_OUT, len(elements))) + 2 * _BRACKETS + 1
        ends = _ends(elements, room)
        least = max(LEAST_BYTES, room // _ELEMENT)
        kept = shares([len(each) + 1 for each in ends], room, self._tail_share, least)
        left_out = len(elements) - len(ends) + kept.count(0)
        pieces = []
        for raw, share in zip(ends, kept, strict=True):
            if share:
                pieces.append(self.value(bytes(raw), share - 1, depth))
            elif left_out:
                pieces.append(b"{%s}" % _count(LEFT_OUT, left_out))
                left_out = 0
        return b"[%s]" % b",".join(pieces)

    def _object(self, members: dict[str, Raw], room: int, depth: int) -> bytes:
        mark = LEFT_OUT
        while mark in members:
            mark = f"_{mark}"
        room -= len(_count(mark, len(members))) + _BRACKETS + 1
        names = [_encode(name) for name in _ends(list(members), room)]
        ends = _ends(list(members.values()), room)
        lengths = [len(name) + len(raw) + 2 for name, raw in zip(names, ends, strict=True)]
        least = min(max(map(len, names)) + LEAST_BYTES, max(room // 2, LEAST_BYTES))
        kept = shares(lengths, room, self._tail_share, least)
        # What a value may have beside its name; too little is as good as nothing.
        kept = [share - len(name) - 2 for name, share in zip(names, kept, strict=True)]
        has_room = [
            share >= min(len(raw), LEAST_BYTES) for raw, share in zip(ends, kept, strict=True)
        ]
        left_out = len(members) - len(ends) + has_room.count(False)
        pieces = []
        for at, name in enumerate(names):
            if has_room[at]:
                pieces.append(b"%s:%s" % (name, self.value(bytes(ends[at]), kept[at], depth)))
            elif left_out:
                pieces.append(_count(mark, left_out))
                left_out = 0
        return b"{%s}" % b",".join(pieces)


def _ends(values: Sequence[T], room: int) -> Sequence[T]:
    """Return the values that may be kept: each takes two bytes or more."""
    reach = room // 2 + 1
    return values if len(values) <= 2 * reach else [*values[:reach], *values[-reach:]]


def _count(name: str, count: int) -> bytes:
    return b"%s:%d" % (_encode(name), count)


def _mark(left_out: int) -> str:
    return f"…[{left_out:,} bytes left out]…"


def _head(text: str, room: int) -> str:
    """Return the longest beginning, or nearly, that is written in `room` bytes."""
    head = text[: max(room, 0)]
    while (size := len(_encode(head)) - _BRACKETS) > room:
        head = head[: len(head) * room // size]
    return head


def _tail(text: str, room: int) -> str:
    tail = text[max(len(text) - max(room, 0), 0) :]
    while (size := len(_encode(tail)) - _BRACKETS) > room:
        tail = tail[len(tail) - len(tail) * room // size :]
    return tail
