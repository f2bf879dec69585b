"""Stores which replica holds which link: entries found by hash, tied to parents, in order of use.

An entry says that one replica holds one link. It costs 50 to 60 bytes, with the hash tables, where
objects would cost 200. Entry 0 stands for none. The caller keeps the counts of tokens.
"""

from collections.abc import Iterator
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i32, i64

from penstock.routing.prefix.link_rows import (
    CHILDREN,
    HALF_BITS,
    HALF_MASK,
    HIGH,
    HOLDER,
    LOW,
    NEWER,
    PAGE_BITS,
    PAGE_MASK,
    PARENT,
    RING,
    ROW,
    TOKENS,
    TOTAL,
    get,
    link_of,
    new_page,
    put,
)
from penstock.routing.prefix.link_slots import LinkSlots

# Links that are found through one hash table, on average. Each grows by itself: to hash a million
# links again at once would stop the worker for half a second.
_SLOTS_LINKS: Final = 1024
# New links that are looked for one by one.
_TAIL: Final = 4
_PAGE_BYTES: Final = (PAGE_MASK + 1) * ROW * 4


class LinkTable:
    """The holders of a link form a ring, and its hash table leads to one of them."""

    def __init__(self, links_max: int) -> None:
        self._links_max: i64 = links_max
        self._used: i64 = 0
        self._free: i64 = 0
        # Entries that were ever taken; those above are in no use yet.
        self._made: i64 = 0
        self.pages = vec[vec[i32]]([new_page()])
        bits = max(0, (links_max // _SLOTS_LINKS).bit_length() - 1)
        self._mask: i64 = (1 << bits) - 1
        self._parts = [LinkSlots(bits) for _ in range(1 << bits)]

    def __len__(self) -> int:
        return self._used

    @property
    def room(self) -> i64:
        return self._links_max - self._used

    @property
    def listed(self) -> int:
        """How many links can be found."""
        return sum(part.used for part in self._parts)

    def bytes_held(self) -> int:
        return len(self.pages) * _PAGE_BYTES + sum(part.bytes_held() for part in self._parts)

    def find(self, link: i64) -> i64:
        """An entry of this link, whoever holds it; 0 when nobody does."""
        return self._parts[link & self._mask].find(self.pages, link)

    def deepest(self, links: tuple[int, ...]) -> tuple[i64, i64]:
        """The index of the deepest known link, and an entry of it; 0 for no entry.

        A conversation that goes on has two or three new links. Beyond those it is found by halving:
        links are forgotten from the end, so what leads to a known link is known.
        """
        end: i64 = len(links)
        tail: i64 = 0
        if end > _TAIL:
            tail = end - _TAIL
        for depth in range(end - 1, tail - 1, -1):
            entry = self.find(links[depth])
            if entry:
                return depth, entry
        known, found, unknown = i64(-1), i64(0), tail
        while unknown - known > 1:
            middle = (known + unknown) >> 1
            entry = self.find(links[middle])
            if entry:
                known, found = middle, entry
            else:
                unknown = middle
        return known, found

    def holders(self, entry: int) -> Iterator[int]:
        """All listed entries of the same link, this one first."""
        yield entry
        other = get(self.pages, entry, RING)
        while other != entry:
            yield other
            other = get(self.pages, other, RING)

    def count_holders(self, entry: i64) -> i64:
        """How many those are."""
        pages = self.pages
        count: i64 = 1
        other = get(pages, entry, RING)
        while other != entry:
            count, other = count + 1, get(pages, other, RING)
        return count

    def make(self, link: i64, replica: i64, parent: i64, tokens: i64 = 0, total: i64 = 0) -> i64:
        """A new entry, not yet listed and in no order of use. There must be room for it."""
        entry = self._take()
        pages = self.pages
        page, row = pages[entry >> PAGE_BITS], (entry & PAGE_MASK) * ROW
        page[row + LOW] = i32(link & HALF_MASK)
        page[row + HIGH] = i32(link >> HALF_BITS)
        page[row + HOLDER] = i32(replica << 1)
        page[row + PARENT] = i32(parent)
        page[row + TOKENS] = i32(tokens)
        page[row + TOTAL] = i32(total)
        if parent:
            page, row = pages[parent >> PAGE_BITS], (parent & PAGE_MASK) * ROW
            page[row + CHILDREN] += 1
        return entry

    def list_first(self, entry: i64, link: i64, other: i64) -> None:
        """Let `find` lead to this entry of a link; `other` is what it finds now, or 0."""
        pages = self.pages
        part = self._parts[link & self._mask]
        if other:
            put(pages, entry, RING, get(pages, other, RING))
            put(pages, other, RING, entry)
            part.replace(pages, link, entry)
        else:
            put(pages, entry, RING, entry)
            part.put(pages, link, entry)

    def unlist(self, entry: i64) -> None:
        """Take it out of its ring; what it holds is no longer found by its link."""
        pages = self.pages
        link = link_of(pages, entry)
        part = self._parts[link & self._mask]
        after = get(pages, entry, RING)
        put(pages, entry, RING, 0)
        if after == entry:
            part.remove(pages, link)
            return
        before = after
        while (following := get(pages, before, RING)) != entry:
            before = following
        put(pages, before, RING, after)
        if part.find(pages, link) == entry:
            part.replace(pages, link, after)

    def drop(self, entry: i64) -> None:
        """Give the entry's place back. It has no children, is not listed and in no order of use."""
        pages = self.pages
        parent = get(pages, entry, PARENT)
        if parent:
            put(pages, parent, CHILDREN, get(pages, parent, CHILDREN) - 1)
        put(pages, entry, NEWER, self._free)
        self._free = entry
        self._used -= 1

    def _take(self) -> i64:
        self._used += 1
        entry = self._free
        if entry:
            self._free = get(self.pages, entry, NEWER)
            return entry
        self._made = entry = self._made + 1
        if entry >> PAGE_BITS == len(self.pages):
            self.pages = append(self.pages, new_page())
        return entry
