"""The prefix index: as a model of dicts has it, bounded, and without leaks."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.routing.prefix.index_model import (
    ReplicaModel,
    check_whole,
    spread,
    totals_on_the_way,
)

from penstock.routing.prefix.index import LINK_MAX, PrefixIndex, ReplicaPrefixes

BLOCK = 16
REPLICAS = (1, 2, 3, 4)


def path(choices: Sequence[int], stride: int = 1) -> tuple[int, ...]:
    """A chain as distinct numbers: each link says the whole way to it. Equal ones collide."""
    links, link = [], 0
    for choice in choices:
        link = link * 3 + choice + 1
        links.append(link * stride)
    return tuple(links)


chains = st.lists(st.integers(0, 2), min_size=1, max_size=6)
# A stride of 4096 sends all links of a small table to the same slot.
strides = st.sampled_from([1, 4096])
steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "add", "teach", "judge", "look", "forget"]),
        st.sampled_from(REPLICAS),
        chains,
        st.integers(0, 300),
    ),
    max_size=60,
)


def tokens_of(links: Sequence[int]) -> tuple[int, ...]:
    return tuple(link % 37 + 1 for link in links)


@settings(max_examples=200)
@given(steps, strides, st.sampled_from([1, 2, 8]), st.sampled_from([60, 200, 100_000]))
def test_index_holds_what_a_model_of_dicts_holds(
    taken: list[tuple[str, int, list[int], int]], stride: int, holders_max: int, capacity: int
) -> None:
    index = PrefixIndex(1024, holders_max, BLOCK)
    models: dict[int, ReplicaModel] = {}
    under_way: list[tuple[int, tuple[int, ...], int]] = []
    for step, number, choices, figure in taken:
        links = path(choices, stride)
        prefixes = index.prefixes_of(number, capacity)
        model = models.setdefault(number, ReplicaModel(capacity))
        if step == "add":
            new_from = index.add(prefixes, links, tokens_of(links))
            assert new_from == model.add(links, tokens_of(links))
            under_way.append((number, links, new_from))
        elif step == "teach" and under_way:
            where, links, new_from = under_way.pop(figure % len(under_way))
            if where in models:
                index.teach(index._by_replica[where], links, new_from, figure)
                models[where].teach(links, new_from, figure)
        elif step == "judge":
            index.judge(prefixes, figure, figure // 2 if figure % 2 else figure)
            model.judge(figure, figure // 2 if figure % 2 else figure, BLOCK)
        elif step == "forget":
            index.forget(number)
            models.pop(number)
        held = index.look(links)
        deepest = {n: link for n, m in models.items() if (link := m.deepest(links)) is not None}
        totals = totals_on_the_way(index, links[held.depth]) if held.by_replica else {}
        truth = {n: totals[link] for n, link in deepest.items() if link in totals}
        assert all(truth[n] >= tokens for n, tokens in held.by_replica.items())
        if holders_max >= len(REPLICAS):
            assert held.by_replica == truth
        for each, expected in models.items():
            one = index._by_replica[each]
            assert one.factor == expected.factor
            assert one.tokens == expected.tokens
        check_whole(index)
    assert len(index) == sum(len(each.held) for each in models.values())


@settings(max_examples=200)
@given(steps, strides, st.integers(1, 12), st.sampled_from([1, 2, 8]))
def test_full_index_stays_within_its_limit_and_whole(
    taken: list[tuple[str, int, list[int], int]], stride: int, links_max: int, holders_max: int
) -> None:
    index = PrefixIndex(links_max, holders_max, BLOCK)
    for step, number, choices, figure in taken:
        # What peers tell begins anywhere in a chain.
        links = path(choices, stride)[figure % len(choices) :]
        if step == "forget":
            index.forget(number)
        else:
            prefixes = index.prefixes_of(number, 1000)
            new_from = index.add(prefixes, links, tokens_of(links))
            assert 0 <= new_from <= len(links)
            if step == "teach":
                index.teach(prefixes, links, new_from, figure)
            known = index.look(links)
            assert known.by_replica.get(number, 0) > 0 or step == "teach"
        assert len(index) <= links_max
        check_whole(index)
    for number in REPLICAS:
        index.forget(number)
    assert len(index) == 0
    assert index._table.listed == 0
    check_whole(index)


def test_chain_longer_than_the_index_is_held_as_far_as_it_goes() -> None:
    index = PrefixIndex(8, 8, BLOCK)
    prefixes = index.prefixes_of(1, 1e9)
    links = tuple(range(1, 21))
    for _ in range(3):
        index.add(prefixes, links, (10,) * 20)
        held = index.look(links)
        assert (held.depth, held.tokens) == (7, 80)
        check_whole(index)


def test_replica_that_comes_to_a_full_index_gets_a_share_of_it() -> None:
    index = PrefixIndex(1000, 8, BLOCK)
    old, new = index.prefixes_of(1, 1e9), index.prefixes_of(2, 1e9)
    for number in range(2000):
        index.add(old, (spread(10_000 + number),), (10,))
    assert len(index) == 1000
    for number in range(400):
        index.add(new, (spread(90_000 + number),), (10,))
    known = sum(bool(index.look((spread(90_000 + number),)).by_replica) for number in range(400))
    assert known >= 250
    check_whole(index)


def test_most_recent_prompt_is_kept_even_when_it_exceeds_the_cache() -> None:
    index = PrefixIndex(1024, 8, BLOCK)
    prefixes = index.prefixes_of(1, 100)
    index.add(prefixes, (1, 2), (40, 40))
    index.add(prefixes, (3, 4), (400, 400))
    assert index.look((1, 2)).by_replica == {}
    assert index.look((3, 4)).by_replica == {1: 800}


def test_holder_beyond_the_limit_is_found_again_when_it_is_used_again() -> None:
    index = PrefixIndex(1024, 2, BLOCK)
    replicas = [index.prefixes_of(number, 1e9) for number in (1, 2, 3)]
    for prefixes in replicas:
        index.add(prefixes, (7, 8), (10, 20))
    assert set(index.look((7, 8)).by_replica) == {2, 3}
    assert index.add(replicas[0], (7, 8, 9), (10, 20, 30)) == 2
    assert index.look((7, 8, 9)).by_replica[1] == 60
    assert replicas[0].tokens == 60
    check_whole(index)


def test_holder_that_was_crowded_out_is_found_when_the_others_have_forgotten() -> None:
    index = PrefixIndex(1024, 1, BLOCK)
    first, second = index.prefixes_of(1, 1e9), index.prefixes_of(2, 1e9)
    index.add(first, (7,), (10,))
    index.add(second, (7,), (10,))
    assert index.look((7,)).by_replica == {2: 10}
    index.forget(2)
    # Replica 1 holds it unseen; the next request there finds that it is not new.
    assert index.add(first, (7, 8), (10, 10)) == 1
    assert index.look((7, 8)).by_replica == {1: 20}


def test_numbers_of_any_size_never_reach_the_caller_as_an_overflow() -> None:
    index = PrefixIndex(1024, 8, BLOCK)
    prefixes = index.prefixes_of(1, 1e12)
    top = LINK_MAX
    for extent in (2**24, 2**31, 2**32 - 1, 2**32, 2**40):
        links = tuple(top - extent - at for at in range(5))
        new_from = index.add(prefixes, links, (extent,) * 5)
        check_whole(index)
        index.teach(prefixes, links, new_from, extent * 7)
        check_whole(index)
        assert index.look(links).tokens > 0


def test_negative_size_never_reaches_the_caller_as_an_overflow() -> None:
    index = PrefixIndex(1024, 8, BLOCK)
    prefixes = index.prefixes_of(1, 1e12)
    index.add(prefixes, (1, 2, 3), (10, -50, 10))
    check_whole(index)
    assert index.look((1, 2, 3)).tokens >= 0


def chain_beside(index: PrefixIndex, prefixes: ReplicaPrefixes) -> tuple[int, int]:
    """Two prompts on one system prompt, both under way. Says where each is new."""
    return index.add(prefixes, (1, 2), (10, 500)), index.add(prefixes, (1, 3), (10, 500))


def test_a_part_of_a_prompt_has_its_share_of_the_bytes_wherever_it_is_held() -> None:
    index = PrefixIndex(1024, 8, BLOCK)
    taught, guessed = index.prefixes_of(1, 1e9), index.prefixes_of(2, 1e9)
    # Without an answer yet, the shared link is thought to have more tokens than the prompt has.
    index.add(guessed, (1, 3), (3000, 600))
    new_from = index.add(taught, (1, 2), (3000, 600))
    index.teach(taught, (1, 2), new_from, 2400)
    assert index.look((1, 2), (10_000, 2_000)).by_replica == {1: 2400, 2: 2000}
    assert index.look((1, 2, 4), (10_000, 2_000, 900)).by_replica == {1: 2400, 2: 2000}


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_prompts_taught_beside_each_other_both_have_their_real_length(
    first: int, second: int
) -> None:
    index = PrefixIndex(1024, 8, BLOCK)
    prefixes = index.prefixes_of(1, 1e9)
    one, two = chain_beside(index, prefixes)
    index.teach(prefixes, (1, 2), one, first)
    index.teach(prefixes, (1, 3), two, second)
    shared = index.look((1,)).tokens
    assert index.look((1, 2)).tokens == first
    assert index.look((1, 3)).tokens == max(shared, second)
    check_whole(index)
