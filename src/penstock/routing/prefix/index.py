"""Tells which replica holds how much of a prompt, from what was sent there and what answers taught.

Per replica a tree of links, forgotten leaf by leaf, least recently used first, when the tokens in
it exceed what the engine's KV cache is believed to keep. Scope is in the links: they begin with the
account and the model, so nothing is shared between two of either. What this must do is specified by
the plain model in tests/unit/routing/prefix/index_model.py: change that first.
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

# The largest link, as `digest` makes them. Peers may send larger ones: these must not be added.
LINK_MAX: Final = 2**62 - 1
_FACTOR_MIN: Final = 0.05
_SHRINK: Final = 0.98
_GROW: Final = 1.01
_SLACK_TOKENS: Final = 256
# More than any model's context: what is said to be longer is not believed.
_PROMPT_TOKENS_MAX: Final = 2**24


class PrefixMatch:
    """How far a prompt is known: the deepest known link's index and tokens, and each replica's."""

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
        # Links that have as many listed holders as they may; this replica holds them all the same.
        self.unlisted: dict[int, int] = {}


class PrefixIndex:
    """Bounded by `links_max` in all, and per replica by its KV cache."""

    def __init__(self, links_max: int, holders_max: int, block_tokens: int) -> None:
        self._table = LinkTable(links_max)
        self._links_max = links_max
        self._holders_max = holders_max
        # Engines cache whole blocks only, of more tokens than we may know.
        self._slack = max(block_tokens, _SLACK_TOKENS)
        self._by_replica: dict[int, ReplicaPrefixes] = {}

    def __len__(self) -> int:
        return len(self._table)

    def bytes_held(self) -> int:
        return self._table.bytes_held()

    def prefixes_of(self, replica: int, kv_tokens: float) -> ReplicaPrefixes:
        """What one replica holds, made when first asked for."""
        prefixes = self._by_replica.get(replica)
        if prefixes is None:
            prefixes = self._by_replica[replica] = ReplicaPrefixes(replica, kv_tokens)
        return prefixes

    def look(self, links: tuple[int, ...], sizes: tuple[int, ...] = ()) -> PrefixMatch:
        """The deepest known link, and the replicas that hold it or a part of what leads to it.

        `sizes` are the bytes of each link: a part has its share of the deepest link's tokens. What
        was learned for a part by itself may be of another time than that, or another's guess, and
        a replica that holds less would seem to hold more.
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
        # A peer's lie may hang a link below more of them than lead to it in this prompt.
        while at >= 0:
            other = i64(page[row + RING])
            if other != entry:
                part = tokens * here // whole if whole else int(page[row + TOTAL])
                # 0: this one is held but not listed, so the others are found by the link.
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
        """The replica will hold these links, each of its size times the rate in tokens.

        `before` are the tokens that lead to the first of them, where that is not the first of all.
        Says where the links begin that are new there.
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
            # Counted as a parent already, so that it is not what is forgotten.
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
        """Tokens up to a link, if an engine has counted them."""
        entry = self._entry(prefixes, link)
        pages = self._table.pages
        return get(pages, entry, TOTAL) if entry and get(pages, entry, HOLDER) & 1 else None

    def correct(self, prefixes: ReplicaPrefixes, link: int, total: int) -> None:
        """An engine has counted the tokens up to a link, as others say."""
        entry = self._entry(prefixes, link)
        if entry:
            pages = self._table.pages
            put(pages, entry, TOTAL, min(total, NUMBER_MAX))
            put(pages, entry, HOLDER, get(pages, entry, HOLDER) | 1)

    def teach(
        self, prefixes: ReplicaPrefixes, links: tuple[int, ...], new_from: int, prompt_tokens: int
    ) -> int:
        """The real length of a prompt: its new links are stretched to it, by their own shares.

        Says how many tokens all its new links have; 0 when that is not sure.
        """
        entry: i64 = 0
        if links:
            entry = self._entry(prefixes, links[-1])
        if not entry:
            return 0
        pages = self._table.pages
        tail: list[int] = []
        # Not the difference of totals: what lies before may have been taught in the meantime.
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
        """Learn how much of the KV cache really keeps prefixes: err high, learn down."""
        if cached < expected - self._slack:
            prefixes.factor = max(_FACTOR_MIN, prefixes.factor * _SHRINK)
        elif cached > expected - self._slack and expected > 2 * self._slack:
            prefixes.factor = min(1.0, prefixes.factor * _GROW)

    def forget(self, replica: int) -> None:
        """The replica is gone, and what it held with it."""
        prefixes = self._by_replica.pop(replica, None)
        while prefixes is not None and prefixes.oldest:
            self._drop_oldest(prefixes)

    def _entry(self, prefixes: ReplicaPrefixes, link: i64) -> i64:
        """This replica's own entry of a link, or 0."""
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
        """Used again: its link leads to it, and a leaf leaves its order. Says whether it is one."""
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
        """Let the link lead to this holder; beyond the limit the one listed first makes room."""
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
        """Forget until so many links fit; say how many do.

        A replica with half its even share of all links makes room itself; for one with less, such
        as one that is new, the largest does.
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
        """Forget the leaf used longest ago; a parent without other children is the next oldest."""
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
