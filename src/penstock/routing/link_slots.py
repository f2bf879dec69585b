"""Where links are found: a hash table of their entries that grows as it fills."""

from array import array
from typing import Final

_FIRST_SLOTS: Final = 8


class LinkSlots:
    """Open addressing with linear probing over some of the links; at most half full.

    `links` is the column that says which link an entry has; entry 0 stands for none.
    """

    __slots__ = ("_links", "_mask", "_shift", "_slots", "used")

    def __init__(self, links: "array[int]", shift: int) -> None:
        self._links = links
        # The lowest bits are the same for all links here.
        self._shift = shift
        self._mask = _FIRST_SLOTS - 1
        self._slots = array("I", bytes(4 * _FIRST_SLOTS))
        self.used = 0

    def bytes_held(self) -> int:
        return len(self._slots) * self._slots.itemsize

    def find(self, link: int) -> int:
        """The entry that is kept for a link, or 0."""
        slots, links, mask = self._slots, self._links, self._mask
        at = (link >> self._shift) & mask
        while entry := slots[at]:
            if links[entry] == link:
                return entry
            at = (at + 1) & mask
        return 0

    def put(self, link: int, entry: int) -> None:
        """Keep this entry for a link that has none."""
        if 2 * self.used >= self._mask:
            self._grow()
        self.used += 1
        self._slots[self._place_of(link)] = entry

    def replace(self, link: int, entry: int) -> None:
        """Keep this entry for a link that has another one."""
        self._slots[self._place_of(link)] = entry

    def remove(self, link: int) -> None:
        """Free its slot, and move up whatever could then no longer be found behind it."""
        slots, links, mask, shift = self._slots, self._links, self._mask, self._shift
        self.used -= 1
        hole = at = self._place_of(link)
        while entry := slots[at := (at + 1) & mask]:
            home = (links[entry] >> shift) & mask
            if (at - home) & mask >= (at - hole) & mask:
                slots[hole] = entry
                hole = at
        slots[hole] = 0

    def _place_of(self, link: int) -> int:
        """The slot that a link has, or the free one that it would get."""
        slots, links, mask = self._slots, self._links, self._mask
        at = (link >> self._shift) & mask
        while entry := slots[at]:
            if links[entry] == link:
                break
            at = (at + 1) & mask
        return at

    def _grow(self) -> None:
        before = self._slots
        size = 2 * (self._mask + 1)
        self._mask = size - 1
        self._slots = array("I", bytes(4 * size))
        for entry in before:
            if entry:
                self._slots[self._place_of(self._links[entry])] = entry
