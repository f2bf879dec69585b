"""A hash table from links to their entries that grows as it fills."""

from typing import Final

from librt.vecs import vec
from mypy_extensions import i32, i64

from penstock.routing.prefix.link_rows import (
    HALF_BITS,
    HALF_MASK,
    HIGH,
    LOW,
    PAGE_BITS,
    PAGE_MASK,
    ROW,
    link_of,
)

_FIRST_SLOTS: Final = 8
_SLOT_BYTES: Final = 4


class LinkSlots:
    """A hash table of some of the links: open addressing, linear probing, at most half full.

    An entry's link is read from its row; entry 0 means no entry.
    """

    def __init__(self, shift: i64) -> None:
        # The lowest bits select this table, so they are the same for all its links.
        self._shift: i64 = shift
        self._mask: i64 = _FIRST_SLOTS - 1
        self._slots = vec[i32]([0] * _FIRST_SLOTS)
        self.used: i64 = 0

    def bytes_held(self) -> int:
        return len(self._slots) * _SLOT_BYTES

    def find(self, pages: vec[vec[i32]], link: i64) -> i64:
        """Return the entry stored for a link, or 0."""
        return i64(self._slots[self._place_of(pages, link)])

    def put(self, pages: vec[vec[i32]], link: i64, entry: i64) -> None:
        """Store this entry for a link that has none."""
        if 2 * self.used >= self._mask:
            self._grow(pages)
        self.used += 1
        self._slots[self._place_of(pages, link)] = i32(entry)

    def replace(self, pages: vec[vec[i32]], link: i64, entry: i64) -> None:
        """Store this entry for a link that has another one."""
        self._slots[self._place_of(pages, link)] = i32(entry)

    def remove(self, pages: vec[vec[i32]], link: i64) -> None:
        """Free the link's slot, and move up entries that a probe could no longer reach."""
        slots, mask, shift = self._slots, self._mask, self._shift
        self.used -= 1
        hole = self._place_of(pages, link)
        at = (hole + 1) & mask
        while slots[at] != 0:
            home = (link_of(pages, i64(slots[at])) >> shift) & mask
            if (at - home) & mask >= (at - hole) & mask:
                slots[hole] = slots[at]
                hole = at
            at = (at + 1) & mask
        slots[hole] = 0

    def _place_of(self, pages: vec[vec[i32]], link: i64) -> i64:
        """Return the slot of a link, or the free slot that it would get."""
        slots, mask = self._slots, self._mask
        low, high = i32(link & HALF_MASK), i32(link >> HALF_BITS)
        at = (link >> self._shift) & mask
        while True:
            entry = i64(slots[at])
            if entry == 0:
                return at
            page, row = pages[entry >> PAGE_BITS], (entry & PAGE_MASK) * ROW
            if page[row + LOW] == low and page[row + HIGH] == high:
                return at
            at = (at + 1) & mask

    def _grow(self, pages: vec[vec[i32]]) -> None:
        before = self._slots
        size = 2 * (self._mask + 1)
        self._mask = size - 1
        self._slots = vec[i32]([0] * size)
        for entry in before:
            if entry != 0:
                self._slots[self._place_of(pages, link_of(pages, i64(entry)))] = entry
