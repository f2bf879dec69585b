"""How fast a model's requests end: what is measured, what fades, and what is not counted."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.admission.drain_rate import DrainRate


def drained(per_second: float, seconds: int, memory: float = 30.0) -> DrainRate:
    rate = DrainRate(memory)
    rate.measure(0.0, is_busy=True)
    for second in range(1, seconds + 1):
        for _ in range(int(per_second)):
            rate.note()
        rate.measure(float(second), is_busy=True)
    return rate


def test_nothing_is_known_before_something_has_ended() -> None:
    rate = DrainRate(30)
    assert rate.seconds_for(1) is None
    rate.measure(0.0, is_busy=True)
    rate.measure(10.0, is_busy=True)
    assert rate.seconds_for(1) is None


@pytest.mark.parametrize("seconds", [1, 5, 300])
def test_steady_rate_is_right_from_the_first_second_on(seconds: int) -> None:
    assert drained(4, seconds).seconds_for(8) == pytest.approx(2.0)


def test_time_with_free_slots_does_not_count() -> None:
    rate = drained(4, 10)
    rate.note()
    rate.measure(3600.0, is_busy=False)
    assert rate.seconds_for(8) == pytest.approx(2.0)


def test_average_follows_a_change() -> None:
    rate = drained(10, 60)
    for second in range(61, 241):
        rate.note()
        rate.measure(float(second), is_busy=True)
    found = rate.seconds_for(1)
    assert found is not None
    assert found == pytest.approx(1.0, rel=0.05)


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.floats(0, 100), st.booleans()), min_size=1, max_size=30
    ),
    st.integers(1, 1000),
)
def test_wait_is_never_negative_and_grows_with_the_line(
    steps: list[tuple[int, float, bool]], count: int
) -> None:
    rate, now = DrainRate(30), 0.0
    for ended, passed, is_busy in steps:
        for _ in range(ended):
            rate.note()
        now += passed
        rate.measure(now, is_busy=is_busy)
    first, more = rate.seconds_for(count), rate.seconds_for(count + 1)
    if first is None or more is None:
        assert first is None
        assert more is None
        return
    assert 0 <= first < more
    assert math.isfinite(first)
