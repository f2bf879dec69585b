"""Windows begin on the minute, the day and the month, in UTC."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.admission.windows import window_of
from penstock.records.limit import Period

MOMENTS = st.floats(min_value=0, max_value=4_102_444_800)


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type,misc] # year first


@pytest.mark.parametrize(
    ("period", "moment", "start", "end"),
    [
        (Period.MINUTE, at(2026, 12, 31, 23, 59, 59), at(2026, 12, 31, 23, 59), at(2027, 1, 1)),
        (Period.DAY, at(2028, 2, 29, 12), at(2028, 2, 29), at(2028, 3, 1)),
        (Period.MONTH, at(2028, 2, 29, 12), at(2028, 2, 1), at(2028, 3, 1)),
        (Period.MONTH, at(2026, 12, 31, 23, 59, 59), at(2026, 12, 1), at(2027, 1, 1)),
        (Period.MONTH, at(2027, 1, 1), at(2027, 1, 1), at(2027, 2, 1)),
    ],
)
def test_window_is_the_calendars(period: Period, moment: float, start: float, end: float) -> None:
    assert window_of(period, moment) == (start, end)


@given(MOMENTS, st.sampled_from(Period))
def test_a_moment_is_in_its_window_and_windows_touch(moment: float, period: Period) -> None:
    window = window_of(period, moment)
    assert window.start <= moment < window.end
    assert window_of(period, window.end).start == window.end
    assert window_of(period, window.end - 0.001) == window
