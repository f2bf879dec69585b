"""Decimal text: every digit, and no other."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from penstock.records.decimals import billionths, six_digits, thousandths, whole

COUNTS = st.integers(0, 2**70) | st.sampled_from([
    0, 1, 999, 1000, 999_999, 10**6, 999_999_999, 10**9,
])  # fmt: skip


@given(COUNTS)
def test_every_digit_of_a_count_is_written(count: int) -> None:
    assert whole(count).decode() == str(count)
    assert thousandths(count).decode() == f"{Decimal(count).scaleb(-3):.3f}"
    assert billionths(count).decode() == f"{Decimal(count).scaleb(-9):.9f}"


@given(st.integers(0, 10**10))
def test_numbers_are_written_as_python_does(count: int) -> None:
    assert whole(count).decode() == str(count)
    assert whole(-count).decode() == str(-count)


@given(st.integers(0, 999_999))
def test_zeros_in_front_are_kept(count: int) -> None:
    assert six_digits(count).decode() == f"{count:06d}"
