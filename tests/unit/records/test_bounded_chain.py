"""A chain that is longer than routing looks at: its beginning is kept, and its end covers all."""

from penstock.records.prompt_chain import LINKS_MAX, PromptChain


def _chain(messages: int, earlier: int = 0) -> PromptChain:
    numbers = range(messages + 1)
    return PromptChain(
        tuple(100 + number for number in numbers),
        tuple(number for number in numbers),
        earlier,
        has_system=True,
        opening=7,
    )


def test_chain_that_is_short_enough_is_kept_as_it_is() -> None:
    chain = _chain(LINKS_MAX - 1)
    assert chain.bounded() is chain


def test_longer_chain_keeps_its_beginning_its_end_and_its_size() -> None:
    chain = _chain(5000, earlier=4990)
    bounded = chain.bounded()
    assert len(bounded.links) == len(bounded.sizes) == LINKS_MAX
    assert bounded.links[:-1] == chain.links[: LINKS_MAX - 1]
    assert bounded.links[-1] == chain.links[-1]
    assert bounded.size == chain.size
    assert bounded.earlier == LINKS_MAX - 1
    assert bounded.has_system
    assert bounded.opening == 7


def test_next_turn_of_a_long_conversation_begins_with_the_same_links() -> None:
    turn, later = _chain(3000).bounded(), _chain(3002).bounded()
    assert turn.links[:-1] == later.links[:-1]
    assert turn.links[-1] != later.links[-1]
