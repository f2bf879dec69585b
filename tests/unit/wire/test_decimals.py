"""Decimal text: every digit, and no other."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.decimals import billionths, six_digits, thousandths

COUNTS = st.integers(0, 2**70) | st.sampled_from([0, 1, 999, 1000, 999_999_999, 10**9])


@given(COUNTS)
def test_every_digit_of_a_count_is_written(count: int) -> None:
    assert thousandths(count) == f"{Decimal(count).scaleb(-3):.3f}"
    assert billionths(count) == f"{Decimal(count).scaleb(-9):.9f}"


@given(st.integers(0, 999_999))
def test_zeros_in_front_are_kept(count: int) -> None:
    assert six_digits(count) == f"{count:06d}"
