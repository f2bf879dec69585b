"""The numbers: one row per model and account, bounded, in buckets that mean what they say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.telemetry.counters import Buckets, Metrics, ModelCounters
from penstock.telemetry.metrics import (
    FIRST_TOKEN_BUCKETS,
    METRICS,
    OTHER,
    OUTPUT_TOKEN_BUCKETS,
    Gauges,
)


def test_row_is_made_once_and_kept() -> None:
    metrics = Metrics(10, 10)
    row = metrics.of("m", "a")
    row.in_flight += 1
    assert metrics.of("m", "a") is row
    assert metrics.of("m", "b") is not row
    assert metrics.of("n", "a") is not row
    assert len(metrics.rows()) == 3


def test_rows_do_not_share_their_tables() -> None:
    metrics = Metrics(10, 10)
    first, second = metrics.of("m", "a"), metrics.of("m", "b")
    first.outcomes["ok"] = 1
    first.first_token.add(0.01)
    assert second.outcomes == {}
    assert sum(second.first_token.counts) == 0


def test_accounts_beyond_the_bound_count_as_other() -> None:
    metrics = Metrics(3, 10)
    for number in range(100):
        metrics.of("m", f"account-{number}").prompt_tokens += 1
    rows = {row.account: row.prompt_tokens for row in metrics.rows()}
    assert rows == {"account-0": 1, "account-1": 1, "account-2": 1, OTHER: 97}


def test_row_that_was_there_before_the_bound_is_kept_beyond_it() -> None:
    metrics = Metrics(1, 10)
    row = metrics.of("m", "first")
    metrics.of("m", "second")
    assert metrics.of("m", "first") is row


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 6), st.lists(st.tuples(st.sampled_from("mno"), st.text(max_size=2)), max_size=60)
)
def test_rows_are_bounded_and_nothing_is_lost(bound: int, pairs: list[tuple[str, str]]) -> None:
    metrics = Metrics(bound, 10)
    for model, account in pairs:
        metrics.of(model, account).retries += 1
    assert sum(row.retries for row in metrics.rows()) == len(pairs)
    assert len(metrics.rows()) <= bound + 3, "beyond the bound only `other`, once per model"
    assert len({(row.model, row.account) for row in metrics.rows()}) == len(metrics.rows())


@pytest.mark.parametrize("bounds", [FIRST_TOKEN_BUCKETS, OUTPUT_TOKEN_BUCKETS, (1.0,)])
def test_value_on_a_bound_is_inside_its_bucket(bounds: tuple[float, ...]) -> None:
    for index, bound in enumerate(bounds):
        histogram = Buckets(bounds)
        histogram.add(bound)
        assert histogram.counts.index(1) == index
        histogram.add(bound * 1.0001)
        assert histogram.counts[index + 1] == 1
        assert histogram.sum == pytest.approx(bound * 2.0001)


def test_zero_is_in_the_first_bucket_and_the_largest_in_the_last() -> None:
    row = ModelCounters("m", "a")
    row.first_token.add(0.0)
    row.first_token.add(1e9)
    row.output_token.add(1e9)
    assert row.first_token.counts[0] == 1
    assert row.first_token.counts[-1] == 1
    assert row.output_token.counts[-1] == 1


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 300), max_size=50))
def test_histogram_counts_every_value_once_and_in_order(values: list[float]) -> None:
    histogram = Buckets(FIRST_TOKEN_BUCKETS)
    for value in values:
        histogram.add(value)
    assert sum(histogram.counts) == len(values)
    for index, bound in enumerate(FIRST_TOKEN_BUCKETS):
        assert sum(histogram.counts[: index + 1]) == sum(value <= bound for value in values)


def test_snapshot_has_every_number_and_does_not_change_afterwards() -> None:
    metrics = Metrics(10, 10)
    counters = metrics.of("m", "a")
    names = [name for name in vars(counters) if isinstance(getattr(counters, name), int)]
    for number, name in enumerate(names, start=1):
        setattr(counters, name, number)
    counters.outcomes["ok"], counters.errors["e"], counters.client_retries["ok"] = 1, 2, 3
    counters.first_token.add(0.2)
    metrics.workflows.of("a", "w").first_token.add(0.2)
    metrics.families.of("a", "f").prompt_tokens = 7
    snapshot = metrics.snapshot(Gauges())
    counters.first_token.add(0.2)
    counters.outcomes["ok"] = 9
    (row,), (workflow,), (family,) = snapshot.rows, snapshot.workflows, snapshot.families
    assert [getattr(row, name) for name in names] == list(range(1, len(names) + 1))
    assert (row.outcomes, row.errors, row.client_retries) == ({"ok": 1}, {"e": 2}, {"ok": 3})
    assert (sum(row.first_token.counts), row.first_token.sum) == (1, 0.2)
    assert (workflow.label, sum(workflow.first_token.counts)) == ("w", 1)
    assert (family.label, family.prompt_tokens) == ("f", 7)


def test_bounds_rise_and_names_carry_their_units() -> None:
    assert list(FIRST_TOKEN_BUCKETS) == sorted(set(FIRST_TOKEN_BUCKETS))
    assert list(OUTPUT_TOKEN_BUCKETS) == sorted(set(OUTPUT_TOKEN_BUCKETS))
    assert all(name.startswith("penstock_") for name in METRICS)
    assert all(text.endswith(".") for text in METRICS.values())
