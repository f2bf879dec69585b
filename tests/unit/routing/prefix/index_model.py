"""The specification of the prefix index, in plain dicts, and a check that its rows are whole."""

from collections import Counter
from collections.abc import Sequence

from penstock.routing.prefix.index import LINK_MAX, PrefixIndex
from penstock.routing.prefix.link_rows import (
    CHILDREN,
    HOLDER,
    NEWER,
    PARENT,
    RING,
    TOKENS,
    TOTAL,
    get,
    link_of,
)
from penstock.routing.prefix.link_table import LinkTable


class Leaf:
    """A link that one replica holds."""

    def __init__(self, parent: int | None, tokens: int, total: int) -> None:
        self.parent = parent
        self.tokens = tokens
        self.total = total


class ReplicaModel:
    """One replica: a tree of links, and its leaves from the oldest to the newest."""

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.factor = 1.0
        self.held: dict[int, Leaf] = {}
        self.leaves: list[int] = []

    @property
    def tokens(self) -> int:
        return sum(each.tokens for each in self.held.values())

    def add(self, links: Sequence[int], tokens: Sequence[int]) -> int:
        known = [at for at, link in enumerate(links) if link in self.held]
        new_from = known[-1] + 1 if known else 0
        last = links[new_from - 1] if new_from else None
        total = self.held[last].total if last is not None else 0
        if last in self.leaves:
            self.leaves.remove(last)
        parent = last
        for link, own in zip(links[new_from:], tokens[new_from:], strict=True):
            total += own
            self.held[link] = Leaf(parent, own, total)
            parent = link
        if parent is not None and not self._children(parent):
            self.leaves.append(parent)
        if new_from < len(links):
            self.shrink()
        return new_from

    def teach(self, links: Sequence[int], new_from: int, prompt_tokens: int) -> None:
        if not links or links[-1] not in self.held:
            return
        tail = [link for link in links[new_from:] if link in self.held]
        if not tail:
            return
        top = self.held[tail[0]].parent
        base = self.held[top].total if top is not None else 0
        guessed = sum(self.held[link].tokens for link in tail)
        if not guessed:
            return
        real = max(0, prompt_tokens - base)
        done, before = 0, base
        for link in tail:
            leaf = self.held[link]
            done += leaf.tokens
            leaf.total = base + done * real // guessed
            leaf.tokens = leaf.total - before
            before = leaf.total
        self.shrink()

    def judge(self, expected: int, cached: int, block: int) -> None:
        slack = max(block, 256)
        if cached < expected - slack:
            self.factor = max(0.05, self.factor * 0.98)
        elif cached > expected - slack and expected > 2 * slack:
            self.factor = min(1.0, self.factor * 1.01)

    def shrink(self) -> None:
        while self.tokens > self.capacity * self.factor and len(self.leaves) > 1:
            self.drop_oldest()

    def drop_oldest(self) -> None:
        parent = self.held.pop(self.leaves.pop(0)).parent
        if parent is not None and not self._children(parent):
            self.leaves.insert(0, parent)

    def deepest(self, links: Sequence[int]) -> int | None:
        """The last link of the longest held prefix."""
        return next((link for link in reversed(links) if link in self.held), None)

    def _children(self, link: int) -> int:
        return sum(each.parent == link for each in self.held.values())


def spread(number: int) -> int:
    """A link like a digest: links next to each other would be one long run of collisions."""
    return number * 0x9E3779B97F4A7C15 & LINK_MAX


def totals_on_the_way(index: PrefixIndex, link: int) -> dict[int, int]:
    """Tokens up to each link that leads to this one, as its first holder counts them."""
    table = index._table
    entry = table.find(link)
    totals = {}
    while entry:
        totals[link_of(table.pages, entry)] = get(table.pages, entry, TOTAL)
        entry = get(table.pages, entry, PARENT)
    return totals


def slots_of(table: LinkTable) -> list[int]:
    """The slots of all its hash tables."""
    return [entry for part in table._parts for entry in part._slots]


def check_whole(index: PrefixIndex) -> None:
    """Every entry is counted, found, and in its order, once."""
    table = index._table
    free, entry = set(), table._free
    while entry:
        assert entry not in free
        free.add(entry)
        entry = get(table.pages, entry, NEWER)
    used = set(range(1, table._made + 1)) - free
    assert len(used) == len(table)
    children = Counter(get(table.pages, each, PARENT) for each in used)
    listed: Counter[int] = Counter()
    for each in used:
        assert get(table.pages, each, CHILDREN) == children[each]
        prefixes = index._by_replica[get(table.pages, each, HOLDER) >> 1]
        link = link_of(table.pages, each)
        if get(table.pages, each, RING):
            assert each in set(table.holders(table.find(link)))
            assert link not in prefixes.unlisted
            listed[link] += 1
        else:
            assert prefixes.unlisted[link] == each
    assert all(count <= index._holders_max for count in listed.values())
    assert sum(map(bool, slots_of(table))) == table.listed == len(listed)
    for number, prefixes in index._by_replica.items():
        mine = {each for each in used if get(table.pages, each, HOLDER) >> 1 == number}
        assert prefixes.tokens == sum(get(table.pages, each, TOKENS) for each in mine)
        assert set(prefixes.unlisted.values()) == {
            each for each in mine if not get(table.pages, each, RING)
        }
        order, entry = [], prefixes.oldest
        while entry:
            order.append(entry)
            entry = get(table.pages, entry, NEWER)
        assert sorted(order) == sorted(each for each in mine if not children[each])
        assert prefixes.newest == (order[-1] if order else 0)
