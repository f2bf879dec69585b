"""How a session's prompt grows, remembered for so many sessions and no more."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.metrics import OTHER, LabelRows
from penstock.telemetry.turns import Turns


def test_growth_is_since_the_turn_before_of_the_same_session() -> None:
    turns = Turns(10)
    assert turns.growth("a", "s", 100) is None
    assert turns.growth("b", "s", 900) is None, "another account's session of that name"
    assert turns.growth("a", "s", 150) == 50
    assert turns.growth("a", "s", 20) == -130, "a compaction shrinks it"


def test_session_longest_unheard_of_is_forgotten_first() -> None:
    turns = Turns(2)
    turns.growth("a", "old", 1)
    turns.growth("a", "kept", 1)
    turns.growth("a", "old", 2)
    turns.growth("a", "new", 1)
    assert turns.growth("a", "old", 3) == 1
    assert turns.growth("a", "kept", 2) is None


@given(st.integers(1, 5), st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9))))
def test_memory_is_bounded_whatever_sessions_are_named(
    bound: int, asked: list[tuple[str, int]]
) -> None:
    turns = Turns(bound)
    for account, session in asked:
        turns.growth(account, str(session), 1)
        assert len(turns._last) <= bound


@given(st.integers(1, 5), st.lists(st.tuples(st.sampled_from("ab"), st.text("xyz", max_size=3))))
def test_labels_beyond_the_bound_count_as_other_and_nothing_is_lost(
    bound: int, asked: list[tuple[str, str]]
) -> None:
    labels = LabelRows(bound)
    for account, label in asked:
        labels.row(account, label).prompt_tokens += 1
    assert sum(row.prompt_tokens for row in labels.rows()) == len(asked)
    assert len(labels.rows()) <= bound + 1
    if len(labels.rows()) > bound:
        assert (OTHER, OTHER) in {(row.account, row.label) for row in labels.rows()}
