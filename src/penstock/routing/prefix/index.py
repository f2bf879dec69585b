"""Estimates how much of a prompt each replica has cached, from prompts sent there and answers.

Each replica has a tree of links, dropped leaf by leaf, least recently used first, when the tokens
in it exceed what the engine's KV cache is believed to keep. Links begin with the account and the
model, so that accounts and models share none. The plain model in
tests/unit/routing/prefix/index_model.py specifies this index: change that first.
"""

from typing import Final

from mypy_extensions import i32, i64

from penstock.routing.prefix.link_rows import (
    CHILDREN,
    HOLDER,
    NEWER,
    NUMBER_MAX,
    OLDER,
    PAGE_BITS,
    PAGE_MASK,
    PARENT,
    RING,
    ROW,
    TOKENS,
    TOTAL,
    get,
    link_of,
    put,
)
from penstock.routing.prefix.link_table import LinkTable

# The largest link that `digest` makes. Peers may send larger ones, which must not be added.
LINK_MAX: Final = 2**62 - 1
_FACTOR_MIN: Final = 0.05
_SHRINK: Final = 0.98
_GROW: Final = 1.01
_SLACK_TOKENS: Final = 256
# More than any model's context; larger token counts are clamped to this.
_PROMPT_TOKENS_MAX: Final = 2**24


class PrefixMatch:
    """A lookup's result: the deepest known link's index and tokens, and tokens by replica."""

    def __init__(self, depth: int, tokens: int, by_replica: dict[int, int]) -> None:
        self.depth = depth
        self.tokens = tokens
        self.by_replica = by_replica


class ReplicaPrefixes:
    """The prefixes that one replica is believed to hold: a tree of entries, leaves by last use."""

    def __init__(self, number: int, capacity: float) -> None:
        self.number: i64 = number
        self.capacity = capacity
        self.factor = 1.0
        self.links: i64 = 0
        self.tokens: i64 = 0
        self.oldest: i64 = 0
        self.newest: i64 = 0
        # Entries of links held here but not listed, because `holders_max` others are; by link.
        self.unlisted: dict[int, int] = {}


class PrefixIndex:
    """The links of all replicas; bounded by `links_max`, and per replica by its KV cache."""

    def __init__(self, links_max: int, holders_max: int, block_tokens: int) -> None:
        self._table = LinkTable(links_max)
        self._links_max = links_max
        self._holders_max = holders_max
        # Engines cache whole blocks only, which may have more tokens than the setting.
        self._slack = max(block_tokens, _SLACK_TOKENS)
        self._by_replica: dict[int, ReplicaPrefixes] = {}

    def __len__(self) -> int:
        return len(self._table)

    def bytes_held(self) -> int:
        return self._table.bytes_held()

    def prefixes_of(self, replica: int, kv_tokens: float) -> ReplicaPrefixes:
        """Return the prefixes of one replica; create them at the first call."""
        prefixes = self._by_replica.get(replica)
        if prefixes is None:
            prefixes = self._by_replica[replica] = ReplicaPrefixes(replica, kv_tokens)
        return prefixes

    def look(self, links: tuple[int, ...], sizes: tuple[int, ...] = ()) -> PrefixMatch:
        """Return the deepest known link, and the replicas that hold it or a part of its prefix.

        `sizes` has the bytes of each link: a part gets its share of the deepest link's tokens. The
        part's own total may be from another time or a peer's guess, and would make a replica that
        holds less seem to hold more.
        """
        table = self._table
        depth, entry = table.deepest(links)
        if not entry:
            return _NO_MATCH
        pages = table.pages
        page, row = pages[entry >> PAGE_BITS], (entry & PAGE_MASK) * ROW
        tokens = int(page[row + TOTAL])
        by_replica = {int(page[row + HOLDER] >> 1): tokens}
        whole = sum(sizes[: depth + 1])
        at, here = depth, whole
        # Bounded by `at`: a false claim may give a link more ancestors than this prompt has.
        while at >= 0:
            other = i64(page[row + RING])
            if other != entry:
                part = tokens * here // whole if whole else int(page[row + TOTAL])
                # 0 means held but not listed: the listed holders are found by the link.
                first = entry if other else table.find(link_of(pages, entry))
                if not other and first:
                    by_replica.setdefault(get(pages, first, HOLDER) >> 1, part)
                    other = get(pages, first, RING)
                while other != first:
                    by_replica.setdefault(get(pages, other, HOLDER) >> 1, part)
                    other = get(pages, other, RING)
                if len(by_replica) >= self._holders_max:
                    break
            entry = i64(page[row + PARENT])
            if entry == 0:
                break
            page, row = pages[entry >> PAGE_BITS], (entry & PAGE_MASK) * ROW
            if whole:
                here -= sizes[at]
            at -= 1
        return PrefixMatch(depth, tokens, by_replica)

    def add(
        self,
        prefixes: ReplicaPrefixes,
        links: tuple[int, ...],
        sizes: tuple[int, ...],
        rate: float = 1.0,
        before: int = 0,
    ) -> int:
        """Record that the replica will hold these links, each of its size times the rate in tokens.

        `before` counts the tokens ahead of `links[0]`, where that is not the prompt's first link.
        Returns the index of the first link that is new there.
        """
        table = self._table
        count: i64 = len(links)
        depth = count
        parent: i64 = 0
        while depth and not parent:
            depth -= 1
            parent = self._entry(prefixes, links[depth])
        new_from: i64 = 0
        is_leaf = False
        if parent:
            new_from = depth + 1
            is_leaf = self._use(prefixes, parent, links[depth])
        if new_from == count:
            if is_leaf:
                self._append(prefixes, parent)
            return new_from
        end = count
        if end - new_from > table.room:
            # The child is counted in advance, so that `_make_room` does not drop the parent.
            put(table.pages, parent, CHILDREN, get(table.pages, parent, CHILDREN) + 1)
            end = new_from + self._make_room(prefixes, end - new_from)
            put(table.pages, parent, CHILDREN, get(table.pages, parent, CHILDREN) - 1)
        total: i64 = min(before, NUMBER_MAX)
        if parent:
            total = get(table.pages, parent, TOTAL)
        for at in range(new_from, end):
            own: i64 = min(max(0, int(sizes[at] * rate)), _PROMPT_TOKENS_MAX)
            total = min(total + own, NUMBER_MAX)
            parent = self._insert(prefixes, links[at], parent, own, total)
        if end > new_from or (parent and not get(table.pages, parent, CHILDREN)):
            self._append(prefixes, parent)
        self._forget_excess(prefixes)
        return new_from

    def counted(self, prefixes: ReplicaPrefixes, link: int) -> int | None:
        """Return the tokens up to a link if an engine has counted them, else None."""
        entry = self._entry(prefixes, link)
        pages = self._table.pages
        return get(pages, entry, TOTAL) if entry and get(pages, entry, HOLDER) & 1 else None

    def correct(self, prefixes: ReplicaPrefixes, link: int, total: int) -> None:
        """Store the tokens up to a link as counted by an engine."""
        entry = self._entry(prefixes, link)
        if entry:
            pages = self._table.pages
            put(pages, entry, TOTAL, min(total, NUMBER_MAX))
            put(pages, entry, HOLDER, get(pages, entry, HOLDER) | 1)

    def teach(
        self, prefixes: ReplicaPrefixes, links: tuple[int, ...], new_from: int, prompt_tokens: int
    ) -> int:
        """Scale the tokens of a prompt's new links so that they add up to its counted length.

        Returns the tokens of the new links; 0 when no engine has counted the links before them.
        """
        entry: i64 = 0
        if links:
            entry = self._entry(prefixes, links[-1])
        if not entry:
            return 0
        pages = self._table.pages
        tail: list[int] = []
        # Not the difference of totals: an answer may have changed the links before meanwhile.
        guessed = 0
        for _ in range(len(links) - new_from):
            tail.append(entry)
            page, row = pages[entry >> PAGE_BITS], (entry & PAGE_MASK) * ROW
            guessed += int(page[row + TOKENS])
            entry = i64(page[row + PARENT])
            if not entry:
                break
        if not guessed:
            return 0
        base = int(get(pages, entry, TOTAL))
        is_sure = not entry or bool(get(pages, entry, HOLDER) & 1)
        real = max(0, min(prompt_tokens, _PROMPT_TOKENS_MAX) - base)
        done, before = 0, base
        for place in range(len(tail) - 1, -1, -1):
            entry = tail[place]
            page, row = pages[entry >> PAGE_BITS], (entry & PAGE_MASK) * ROW
            guess = int(page[row + TOKENS])
            done += guess
            total = base + done * real // guessed
            own = max(0, total - before)
            prefixes.tokens += own - guess
            page[row + TOKENS] = i32(own)
            page[row + TOTAL] = i32(total)
            page[row + HOLDER] |= 1
            before = total
        self._forget_excess(prefixes)
        return real if is_sure else 0

    def judge(self, prefixes: ReplicaPrefixes, expected: int, cached: int) -> None:
        """Adjust the share of the KV cache that keeps prefixes: it starts high and is learned."""
        if cached < expected - self._slack:
            prefixes.factor = max(_FACTOR_MIN, prefixes.factor * _SHRINK)
        elif cached > expected - self._slack and expected > 2 * self._slack:
            prefixes.factor = min(1.0, prefixes.factor * _GROW)

    def forget(self, replica: int) -> None:
        """Drop a replica that is gone, with all its links."""
        prefixes = self._by_replica.pop(replica, None)
        while prefixes is not None and prefixes.oldest:
            self._drop_oldest(prefixes)

    def _entry(self, prefixes: ReplicaPrefixes, link: i64) -> i64:
        """Return this replica's own entry of a link, or 0."""
        table = self._table
        first = table.find(link)
        if first:
            number, pages = prefixes.number, table.pages
            entry = first
            while True:
                page, row = pages[entry >> PAGE_BITS], (entry & PAGE_MASK) * ROW
                if i64(page[row + HOLDER] >> 1) == number:
                    return entry
                entry = i64(page[row + RING])
                if entry == first:
                    break
        if prefixes.unlisted:
            return prefixes.unlisted.get(link, 0)
        return 0

    def _use(self, prefixes: ReplicaPrefixes, entry: i64, link: i64) -> bool:
        """List a reused entry; take a leaf out of the use order. Returns whether it is a leaf."""
        pages = self._table.pages
        is_leaf = not get(pages, entry, CHILDREN)
        if is_leaf:
            self._unlink(prefixes, entry)
        if not get(pages, entry, RING):
            del prefixes.unlisted[link]
            self._list(entry, link)
        return is_leaf

    def _insert(
        self, prefixes: ReplicaPrefixes, link: i64, parent: i64, own: i64, total: i64
    ) -> i64:
        entry = self._table.make(link, prefixes.number, parent, own, total)
        prefixes.tokens += own
        prefixes.links += 1
        self._list(entry, link)
        return entry

    def _list(self, entry: i64, link: i64) -> None:
        """List this entry for its link; at the limit, unlist the one that was listed first."""
        table = self._table
        first = table.find(link)
        if first and table.count_holders(first) >= self._holders_max:
            # The ring begins with the newest, so the oldest is next to it.
            oldest = get(table.pages, first, RING)
            table.unlist(oldest)
            self._by_replica[get(table.pages, oldest, HOLDER) >> 1].unlisted[link] = oldest
            first = table.find(link)
        table.list_first(entry, link, first)

    def _make_room(self, prefixes: ReplicaPrefixes, wanted: i64) -> i64:
        """Drop links until `wanted` more fit; return how many fit.

        A replica with half its even share of all links drops its own; for one with less, such as
        a new one, the replica with the most links drops.
        """
        while (missing := wanted - self._table.room) > 0:
            has_share = 2 * prefixes.links * len(self._by_replica) >= self._links_max
            is_own = prefixes.oldest and has_share
            victim = prefixes if is_own else max(self._by_replica.values(), key=_droppable)
            if not victim.oldest:
                return self._table.room
            for _ in range(missing):
                if victim.oldest:
                    self._drop_oldest(victim)
        return wanted

    def _forget_excess(self, prefixes: ReplicaPrefixes) -> None:
        limit = prefixes.capacity * prefixes.factor
        while float(prefixes.tokens) > limit and prefixes.oldest != prefixes.newest:
            self._drop_oldest(prefixes)

    def _drop_oldest(self, prefixes: ReplicaPrefixes) -> None:
        """Drop the least recently used leaf; a parent left without children is the next oldest."""
        table = self._table
        pages = table.pages
        entry = prefixes.oldest
        self._unlink(prefixes, entry)
        parent = get(pages, entry, PARENT)
        if get(pages, entry, RING):
            table.unlist(entry)
        else:
            del prefixes.unlisted[link_of(pages, entry)]
        prefixes.tokens -= get(pages, entry, TOKENS)
        prefixes.links -= 1
        table.drop(entry)
        if parent and not get(pages, parent, CHILDREN):
            self._prepend(prefixes, parent)

    def _unlink(self, prefixes: ReplicaPrefixes, entry: i64) -> None:
        pages = self._table.pages
        older, newer = get(pages, entry, OLDER), get(pages, entry, NEWER)
        if older:
            put(pages, older, NEWER, newer)
        else:
            prefixes.oldest = newer
        if newer:
            put(pages, newer, OLDER, older)
        else:
            prefixes.newest = older

    def _append(self, prefixes: ReplicaPrefixes, entry: i64) -> None:
        pages = self._table.pages
        put(pages, entry, OLDER, prefixes.newest)
        put(pages, entry, NEWER, 0)
        if prefixes.newest:
            put(pages, prefixes.newest, NEWER, entry)
        else:
            prefixes.oldest = entry
        prefixes.newest = entry

    def _prepend(self, prefixes: ReplicaPrefixes, entry: i64) -> None:
        pages = self._table.pages
        put(pages, entry, NEWER, prefixes.oldest)
        put(pages, entry, OLDER, 0)
        if prefixes.oldest:
            put(pages, prefixes.oldest, OLDER, entry)
        else:
            prefixes.newest = entry
        prefixes.oldest = entry


def _droppable(prefixes: ReplicaPrefixes) -> int:
    return int(prefixes.links) if prefixes.oldest else -1


_NO_MATCH: Final = PrefixMatch(-1, 0, {})
