"""Cuts a text in its middle, at line ends where it has them near. Pure."""

from typing import Final

# A text is cut at a line end if there is one among this part of the bytes that it may keep.
_NEAR: Final = 8
# With less room than twice the mark, the mark would take the place of the text.
_MARKS: Final = 2
_LINE_END: Final = b"\n"
_CONTINUED: Final = 0b1000_0000
_CONTINUED_BITS: Final = 0b1100_0000


def cut_text(data: bytes, room: int, tail_share: float, owner: str = "") -> bytes:
    """Return UTF-8 of at most `room` bytes: the head, a line about what is left out, the tail.

    The tail has at least `tail_share` of the bytes that are kept. `owner` is the contract's name.
    """
    if len(data) <= room:
        return data
    # At its longest if everything is left out; a line end may come before it.
    space = room - len(_mark(len(data), data.count(_LINE_END) + 1, owner)) - 2 * len(_LINE_END)
    if space * _MARKS < room:
        return data[: _before(data, room)]
    least = -int(-space * tail_share // 1)
    # The tail gets what the head leaves, and with it a choice of line ends.
    near = min(space // _NEAR, (space - least) // 2)
    end = _head_end(data, space - least - near, near)
    start = _tail_start(data, len(data) - (space - end), len(data) - least)
    head, tail = data[:end], data[start:]
    between = b"" if not head or head.endswith(_LINE_END) else _LINE_END
    mark = _mark(start - end, _lines(data[end:start]), owner)
    return b"".join((head, between, mark, _LINE_END, tail))


def _head_end(data: bytes, end: int, near: int) -> int:
    found = data.rfind(_LINE_END, max(end - near, 0), end)
    return _before(data, end) if found < 0 else found + 1


def _tail_start(data: bytes, first: int, last: int) -> int:
    """Return where the tail begins: after a line end that is not before `first` or after `last`."""
    found = data.find(_LINE_END, first - 1, last)
    return _after(data, first) if found < 0 else found + 1


def _before(data: bytes, at: int) -> int:
    while at > 0 and data[at] & _CONTINUED_BITS == _CONTINUED:
        at -= 1
    return at


def _after(data: bytes, at: int) -> int:
    while at < len(data) and data[at] & _CONTINUED_BITS == _CONTINUED:
        at += 1
    return at


def _lines(data: bytes) -> int:
    return data.count(_LINE_END) + (not data.endswith(_LINE_END))


def _mark(count: int, lines: int, owner: str) -> bytes:
    of = f": contract {owner}" if owner else ""
    return f"[{count:,} bytes in {lines:,} line{'s' * (lines != 1)} left out here{of}]".encode()
