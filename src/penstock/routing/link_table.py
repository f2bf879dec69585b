"""Links in flat arrays: found by hash, tied to their parents, in the order of their last use.

An entry says that one replica holds one link. Arrays cost 50 to 60 bytes an entry, with the hash
tables, where objects would cost 200. Entry 0 stands for none. Whoever calls keeps the counts of
tokens.
"""

from array import array
from collections.abc import Iterator
from typing import Final

from penstock.routing.link_slots import LinkSlots

# Links that are found through one hash table, on average. Each grows by itself: to hash a million
# links again at once would stop the worker for half a second.
_SLOTS_LINKS: Final = 1024
# By how many entries the columns grow: one by one it would cost most of what an entry costs.
_GROWTH: Final = 256


class LinkTable:
    """The holders of a link form a ring, and its hash table leads to one of them."""

    __slots__ = (
        "_free", "_links_max", "_made", "_mask", "_parts", "_used",
        "children", "is_taught", "link", "newer", "older", "parent", "replica", "ring", "tokens",
        "total",
    )  # fmt: skip

    def __init__(self, links_max: int) -> None:
        self._links_max = links_max
        self._used = 0
        self._free = 0
        # Entries that were ever taken; those above are in no use yet.
        self._made = 0
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
        bits = max(0, (links_max // _SLOTS_LINKS).bit_length() - 1)
        self._mask = (1 << bits) - 1
        self._parts = [LinkSlots(self.link, bits) for _ in range(1 << bits)]

    def __len__(self) -> int:
        return self._used

    @property
    def room(self) -> int:
        return self._links_max - self._used

    @property
    def listed(self) -> int:
        """How many links can be found."""
        return sum(part.used for part in self._parts)

    def bytes_held(self) -> int:
        columns = sum(len(column) * column.itemsize for column in self._columns())
        return columns + sum(part.bytes_held() for part in self._parts)

    def find(self, link: int) -> int:
        """An entry of this link, whoever holds it; 0 when nobody does."""
        return self._parts[link & self._mask].find(link)

    def holders(self, entry: int) -> Iterator[int]:
        """All listed entries of the same link, this one first."""
        yield entry
        other = self.ring[entry]
        while other != entry:
            yield other
            other = self.ring[other]

    def count_holders(self, entry: int) -> int:
        """How many those are."""
        ring = self.ring
        count, other = 1, ring[entry]
        while other != entry:
            count, other = count + 1, ring[other]
        return count

    def make(self, link: int, replica: int, parent: int, tokens: int = 0, total: int = 0) -> int:
        """A new entry, not yet listed and in no order of use. There must be room for it."""
        entry = self._take()
        self.link[entry] = link
        self.replica[entry] = replica
        self.parent[entry] = parent
        self.tokens[entry] = tokens
        self.total[entry] = total
        if parent:
            self.children[parent] += 1
        return entry

    def list_first(self, entry: int, link: int, other: int) -> None:
        """Let `find` lead to this entry of a link; `other` is what it finds now, or 0."""
        ring = self.ring
        part = self._parts[link & self._mask]
        if other:
            ring[entry] = ring[other]
            ring[other] = entry
            part.replace(link, entry)
        else:
            ring[entry] = entry
            part.put(link, entry)

    def unlist(self, entry: int) -> None:
        """Take it out of its ring; what it holds is no longer found by its link."""
        ring, link = self.ring, self.link[entry]
        part = self._parts[link & self._mask]
        after = ring[entry]
        ring[entry] = 0
        if after == entry:
            part.remove(link)
            return
        before = after
        while ring[before] != entry:
            before = ring[before]
        ring[before] = after
        if part.find(link) == entry:
            part.replace(link, after)

    def drop(self, entry: int) -> None:
        """Give the entry's place back. It has no children, is not listed and in no order of use."""
        parent = self.parent[entry]
        if parent:
            self.children[parent] -= 1
        self.newer[entry] = self._free
        self._free = entry
        self._used -= 1

    def _take(self) -> int:
        self._used += 1
        entry = self._free
        if entry:
            self._free = self.newer[entry]
            self.is_taught[entry] = 0
            return entry
        self._made = entry = self._made + 1
        if entry == len(self.link):
            for column in self._columns():
                column.frombytes(bytes(_GROWTH * column.itemsize))
        return entry

    def _columns(self) -> "tuple[array[int], ...]":
        return (
            self.link, self.parent, self.children, self.older, self.newer, self.ring, self.tokens,
            self.total, self.is_taught, self.replica,
        )  # fmt: skip
