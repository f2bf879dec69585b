"""The table of links: found by hash under the worst collisions, and no larger than it may be."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.routing.prefix.index_model import slots_of, spread

from penstock.routing.prefix.link_rows import link_of
from penstock.routing.prefix.link_table import LinkTable

# Few home slots, far apart in value: long runs of collisions, which also wrap around the end.
colliding = st.builds(lambda home, high: (high << 32) + home, st.integers(0, 3), st.integers(1, 9))
at_the_end = colliding.map(lambda link: link | 0xFFFFFF0)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.booleans(), colliding | at_the_end, st.integers(1, 3)), max_size=60))
def test_links_are_found_whatever_came_and_went_before(
    steps: list[tuple[bool, int, int]],
) -> None:
    table = LinkTable(64)
    held: dict[int, dict[int, int]] = {}
    for is_new, link, replica in steps:
        holders = held.setdefault(link, {})
        if is_new and replica not in holders:
            entry = table.make(link, replica, 0)
            table.list_first(entry, link, table.find(link))
            holders[replica] = entry
        elif not is_new and replica in holders:
            entry = holders.pop(replica)
            table.unlist(entry)
            table.drop(entry)
        for each, expected in held.items():
            found = table.find(each)
            entries = set(table.holders(found)) if found else set()
            assert entries == set(expected.values())
    assert len(table) == sum(map(len, held.values()))
    listed = sum(map(bool, held.values()))
    assert sum(map(bool, slots_of(table))) == table.listed == listed


def test_place_that_was_given_back_is_taken_again() -> None:
    table = LinkTable(1024)
    size = 0
    for turn in range(5):
        entries = []
        for link in range(1, 1025):
            entry_link = spread(link + turn * 4096)
            entry = table.make(entry_link, 1, 0)
            table.list_first(entry, entry_link, 0)
            entries.append(entry)
        size = size or table.bytes_held()
        assert table.bytes_held() == size
        assert table.room == 0
        for entry in entries:
            table.unlist(entry)
            table.drop(entry)
    assert len(table) == 0


def test_table_of_any_size_has_free_slots_when_it_is_full() -> None:
    for links_max in (1, 2, 3, 5, 8, 100, 1024, 2**13):
        table = LinkTable(links_max)
        for link in range(1, links_max + 1):
            table.list_first(table.make(link, 1, 0), link, 0)
        slots = slots_of(table)
        assert len(slots) >= 1.5 * links_max
        assert all(part.used < len(part._slots) for part in table._parts)
        assert all(
            link_of(table.pages, table.find(link)) == link for link in range(1, links_max + 1)
        )


def test_table_takes_memory_as_it_fills() -> None:
    table = LinkTable(2**20)
    assert table.bytes_held() < 2**17
    for link in range(1, 10_001):
        table.list_first(table.make(link, 1, 0), link, 0)
    assert table.bytes_held() < 96 * 10_000
