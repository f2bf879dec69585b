"""How a session's prompt grows, remembered for so many sessions and no more."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.counters import Labels
from penstock.telemetry.metrics import OTHER
from penstock.telemetry.session_growth import SessionGrowth


def test_growth_is_since_the_turn_before_of_the_same_session() -> None:
    turns = SessionGrowth(10)
    assert turns.growth("a", "s", 100) is None
    assert turns.growth("b", "s", 900) is None, "another account's session of that name"
    assert turns.growth("a", "s", 150) == 50
    assert turns.growth("a", "s", 20) == -130, "a compaction shrinks it"


def test_session_that_is_heard_of_stays_and_others_are_forgotten() -> None:
    turns = SessionGrowth(4)
    turns.growth("a", "once", 1)
    turns.growth("a", "often", 1)
    for number in range(10):
        turns.growth("a", f"new {number}", 1)
        assert turns.growth("a", "often", number) is not None
    assert turns.growth("a", "once", 2) is None


@given(st.integers(1, 5), st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9))))
def test_memory_is_bounded_whatever_sessions_are_named(
    bound: int, asked: list[tuple[str, int]]
) -> None:
    turns = SessionGrowth(bound)
    for account, session in asked:
        turns.growth(account, str(session), 1)
        assert turns.remembered() <= bound + 1


@given(
    st.integers(1, 5),
    st.integers(1, 3),
    st.lists(st.tuples(st.sampled_from("ab"), st.text("xyz", max_size=3))),
)
def test_labels_beyond_a_bound_count_as_other_and_nothing_is_lost(
    bound: int, share: int, asked: list[tuple[str, str]]
) -> None:
    labels = Labels(bound, share)
    for account, label in asked:
        labels.of(account, label).prompt_tokens += 1
    assert sum(row.prompt_tokens for row in labels.rows()) == len(asked)
    assert len(labels.rows()) <= bound + 1
    if len(labels.rows()) > bound:
        assert (OTHER, OTHER) in {(row.account, row.label) for row in labels.rows()}
    for account in "ab":
        own = [row for row in labels.rows() if row.account == account and row.label != OTHER]
        assert len(own) <= share
