"""Quantiles out of a histogram: near enough, in order, and nothing out of nothing."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metering.reports.quantiles import quantile_ms
from penstock.metering.reports.sums import BUCKETS

# From the second bucket to the last but one: those with two ends.
times = st.lists(st.floats(4.1, 180_000), min_size=1, max_size=50)


def bucket_of(milliseconds: float) -> int:
    """As `first_token_bucket` in the database."""
    place = math.ceil(4 * (math.log2(max(milliseconds, 1)) - 2))
    return min(BUCKETS - 1, max(0, place))


def histogram(values: list[float]) -> list[int]:
    counts = [0] * BUCKETS
    for value in values:
        counts[bucket_of(value)] += 1
    return counts


@given(times, st.sampled_from([0.5, 0.95, 1.0]))
def test_quantile_is_within_a_fifth_of_the_true_one(values: list[float], share: float) -> None:
    found = quantile_ms(histogram(values), share)
    assert found is not None
    true = sorted(values)[math.ceil(share * len(values)) - 1]
    # 19 %, and the tenth of a millisecond that is rounded away.
    assert true / 2**0.25 - 0.1 <= found <= true * 2**0.25 + 0.1


@given(times)
def test_quantiles_are_in_order(values: list[float]) -> None:
    middle, late = quantile_ms(histogram(values), 0.5), quantile_ms(histogram(values), 0.95)
    assert middle is not None
    assert late is not None
    assert middle <= late


def test_of_nothing_there_is_no_quantile() -> None:
    assert quantile_ms([0] * BUCKETS, 0.5) is None


@pytest.mark.parametrize(("value", "most"), [(0.5, 4.0), (10**7, 2 ** (2 + 63 / 4))])
def test_ends_of_the_scale_are_told_as_the_ends(value: float, most: float) -> None:
    assert quantile_ms(histogram([value]), 1.0) == round(most, 1)
