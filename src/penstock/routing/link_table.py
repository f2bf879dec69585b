"""Links in flat arrays: found by hash, tied to their parents, in the order of their last use.

An entry says that one replica holds one link. Arrays cost about 46 bytes an entry where objects
would cost 200. Entry 0 stands for none. Whoever calls keeps the counts of tokens.
"""

from array import array
from collections.abc import Iterator


class LinkTable:
    """Open addressing with linear probing over the links; the holders of a link form a ring."""

    __slots__ = (
        "_free", "_links_max", "_mask", "_slots", "_used",
        "children", "is_taught", "link", "newer", "older", "parent", "replica", "ring", "tokens",
        "total",
    )  # fmt: skip

    def __init__(self, links_max: int) -> None:
        self._links_max = links_max
        size = 1 << (links_max * 3 // 2).bit_length()
        self._mask = size - 1
        # Taken once: growing would stop the worker for half a second to hash a million links again.
        self._slots = array("I", bytes(4 * size))
        self._used = 0
        self._free = 0
        self.link = array("Q", (0,))
        self.parent = array("I", (0,))
        self.children = array("I", (0,))
        self.older = array("I", (0,))
        self.newer = array("I", (0,))
        # The next holder of the same link; the entry itself when it is the only one; 0 when it is
        # held but not listed.
        self.ring = array("I", (0,))
        # Tokens of this link by itself, and of the whole prefix that ends with it.
        self.tokens = array("I", (0,))
        self.total = array("I", (0,))
        # Whether the total is what an engine counted, not what we guessed.
        self.is_taught = array("B", (0,))
        self.replica = array("H", (0,))

    def __len__(self) -> int:
        return self._used

    @property
    def room(self) -> int:
        return self._links_max - self._used

    def bytes_held(self) -> int:
        columns = (
            self._slots, self.link, self.parent, self.children, self.older, self.newer, self.ring,
            self.tokens, self.total, self.is_taught, self.replica,
        )  # fmt: skip
        return sum(len(column) * column.itemsize for column in columns)

    def find(self, link: int) -> int:
        """An entry of this link, whoever holds it; 0 when nobody does."""
        slots, links, mask = self._slots, self.link, self._mask
        at = link & mask
        while entry := slots[at]:
            if links[entry] == link:
                return entry
            at = (at + 1) & mask
        return 0

    def holders(self, entry: int) -> Iterator[int]:
        """All listed entries of the same link, this one first."""
        yield entry
        other = self.ring[entry]
        while other != entry:
            yield other
            other = self.ring[other]

    def make(self, link: int, replica: int, parent: int) -> int:
        """A new entry, not yet listed. The caller has made sure that there is room."""
        entry = self._take()
        self.link[entry] = link
        self.replica[entry] = replica
        self.parent[entry] = parent
        if parent:
            self.children[parent] += 1
        return entry

    def list_first(self, entry: int, other: int) -> None:
        """Let `find` lead to this entry; `other` is what it finds for the link now, or 0."""
        if other:
            self.ring[entry] = self.ring[other]
            self.ring[other] = entry
            self._slots[self._slot_of(other)] = entry
        else:
            self.ring[entry] = entry
            slots, mask = self._slots, self._mask
            at = self.link[entry] & mask
            while slots[at]:
                at = (at + 1) & mask
            slots[at] = entry

    def unlist(self, entry: int) -> None:
        """Take it out of its ring; what it holds is no longer found by its link."""
        after = self.ring[entry]
        self.ring[entry] = 0
        at = self._slot_of(entry)
        if after == entry:
            self._empty(at)
            return
        before = after
        while self.ring[before] != entry:
            before = self.ring[before]
        self.ring[before] = after
        if self._slots[at] == entry:
            self._slots[at] = after

    def drop(self, entry: int) -> None:
        """Give the entry's place back. It has no children, is not listed and in no order of use."""
        parent = self.parent[entry]
        if parent:
            self.children[parent] -= 1
        self.newer[entry] = self._free
        self._free = entry
        self._used -= 1

    def _take(self) -> int:
        entry = self._free
        self._used += 1
        if entry:
            self._free = self.newer[entry]
            self.is_taught[entry] = 0
            for column in (self.children, self.older, self.newer, self.tokens, self.total):
                column[entry] = 0
            return entry
        entry = len(self.link)
        columns = (
            self.link, self.parent, self.children, self.older, self.newer, self.ring, self.tokens,
            self.total, self.is_taught, self.replica,
        )  # fmt: skip
        for column in columns:
            column.append(0)
        return entry

    def _slot_of(self, entry: int) -> int:
        """Where the ring of this entry is found."""
        slots, links, mask = self._slots, self.link, self._mask
        link = links[entry]
        at = link & mask
        while links[slots[at]] != link:
            at = (at + 1) & mask
        return at

    def _empty(self, hole: int) -> None:
        """Free a slot, and move up whatever could then no longer be found behind it."""
        slots, links, mask = self._slots, self.link, self._mask
        at = hole
        while entry := slots[at := (at + 1) & mask]:
            home = links[entry] & mask
            if (at - home) & mask >= (at - hole) & mask:
                slots[hole] = entry
                hole = at
        slots[hole] = 0
