"""Stores which replica holds which link: entries found by hash, tied to parents, in order of use.

An entry records that one replica holds one link. With the hash tables it costs 50 to 60 bytes,
where objects would cost 200. Entry 0 means no entry. The caller keeps the counts of tokens.
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

# Links per hash table, on average. Each table grows by itself: to rehash a million links at once
# would stop the worker for half a second.
_SLOTS_LINKS: Final = 1024
# How many of a prompt's last links `deepest` looks up one by one before it bisects.
_TAIL: Final = 4
_PAGE_BYTES: Final = (PAGE_MASK + 1) * ROW * 4


class LinkTable:
    """All replicas' entries; those of one link form a ring, which a hash table leads to."""

    def __init__(self, links_max: int) -> None:
        self._links_max: i64 = links_max
        self._used: i64 = 0
        self._free: i64 = 0
        # The highest entry ever taken; higher ones are not in use yet.
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
        """The number of links that `find` can find."""
        return sum(part.used for part in self._parts)

    def bytes_held(self) -> int:
        return len(self.pages) * _PAGE_BYTES + sum(part.bytes_held() for part in self._parts)

    def find(self, link: i64) -> i64:
        """Return an entry of this link, of any holder; 0 when it has no holder."""
        return self._parts[link & self._mask].find(self.pages, link)

    def deepest(self, links: tuple[int, ...]) -> tuple[i64, i64]:
        """Return the index of the deepest known link, and an entry of it; 0 for no entry.

        A continued conversation has two or three new links. Beyond those the search bisects: links
        are dropped from the end, so all links before a known one are known.
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
        """Yield all listed entries of the same link, this one first."""
        yield entry
        other = get(self.pages, entry, RING)
        while other != entry:
            yield other
            other = get(self.pages, other, RING)

    def count_holders(self, entry: i64) -> i64:
        """Return how many listed entries the same link has."""
        pages = self.pages
        count: i64 = 1
        other = get(pages, entry, RING)
        while other != entry:
            count, other = count + 1, get(pages, other, RING)
        return count

    def make(self, link: i64, replica: i64, parent: i64, tokens: i64 = 0, total: i64 = 0) -> i64:
        """Return a new entry, not yet listed or in the use order. There must be room for it."""
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
        """Make `find` return this entry for a link; `other` is what it returns now, or 0."""
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
        """Take an entry out of its ring, so that its link no longer leads to it."""
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
        """Free an entry, which must have no children, not be listed and not be in the use order."""
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
