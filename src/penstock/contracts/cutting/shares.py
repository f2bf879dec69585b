"""Divides a number of bytes among pieces in a row, and leaves out pieces in the middle. Pure."""

from collections.abc import Sequence
from typing import Final

# A piece that is kept may take this part of all bytes, where others are left out.
_PART: Final = 4


def shares(lengths: Sequence[int], room: int, tail_share: float, least: int) -> list[int]:
    """Return how many bytes each piece may have; 0 for pieces that are left out.

    If every piece can have its length or `least`, none is left out. Else the first and the last
    pieces are kept, and the last ones have `tail_share` of the bytes.
    """
    level = _level(lengths, room)
    if level >= least:
        return [min(length, level) for length in lengths]
    most = max(least, room // _PART)
    kept = [0] * len(lengths)
    left = room - int(room * tail_share)
    at = 0
    while at < len(lengths) and (share := _share(lengths[at], left, most, least)):
        kept[at] = share
        left -= share
        at += 1
    left += int(room * tail_share)
    for back in range(len(lengths) - 1, at - 1, -1):
        share = _share(lengths[back], left, most, least)
        if not share:
            break
        kept[back] = share
        left -= share
    return kept


def _share(length: int, left: int, most: int, least: int) -> int:
    share = min(length, left, most)
    return share if share >= min(length, least) else 0


def _level(lengths: Sequence[int], room: int) -> int:
    """Return the longest that every piece may be so that all fit; 0 if there are too many."""
    if len(lengths) > room:
        return 0
    left = room
    for number, length in enumerate(sorted(lengths)):
        each = left // (len(lengths) - number)
        if length > each:
            return each
        left -= length
    return room
