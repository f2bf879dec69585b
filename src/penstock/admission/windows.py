"""The windows in which limits count: whole minutes, days and months, in UTC. Pure.

They equal Postgres' `date_trunc(period, asked_at, 'UTC')`, by which use is booked.
"""

from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from penstock.records.limit import Period

_MINUTE = 60
_DAY = 86_400


class Window(NamedTuple):
    """From `start` until just before `end`, in seconds since 1970."""

    start: int
    end: int


def window_of(period: Period, at: float) -> Window:
    """Return the window that contains a point in time."""
    if period is Period.MINUTE:
        start = int(at // _MINUTE) * _MINUTE
        return Window(start, start + _MINUTE)
    day = int(at // _DAY)
    if period is Period.DAY:
        return Window(day * _DAY, (day + 1) * _DAY)
    return _month_of(day)


@lru_cache(maxsize=64)
def _month_of(day: int) -> Window:
    first = datetime.fromtimestamp(day * _DAY, UTC).replace(day=1)
    years, month = divmod(first.month, 12)
    after = first.replace(year=first.year + years, month=month + 1)
    return Window(int(first.timestamp()), int(after.timestamp()))
