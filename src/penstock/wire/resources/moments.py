"""Reads points in time as people write them: a date, an RFC 3339 time, or an age such as `2h`."""

import re
from datetime import UTC, date, datetime, timedelta
from typing import Final

from penstock.errors import InvalidRequest

_DATE: Final = re.compile(r"2\d{3}-\d\d-\d\d")
_TIME: Final = re.compile(r"2\d{3}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)")
_AGE: Final = re.compile(r"([1-9]\d{0,4})([mhd])")
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}


def read_moment(text: str, name: str, now: float) -> datetime:
    """Return a time; of a date its 0:00 UTC, of an age so long before now."""
    try:
        if _DATE.fullmatch(text):
            day = date.fromisoformat(text)
            return datetime(day.year, day.month, day.day, tzinfo=UTC)
        if _TIME.fullmatch(text):
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except ValueError:
        pass  # a thirteenth month, a 25th hour: refused like any other text
    age = _AGE.fullmatch(text)
    if age is not None:
        return datetime.fromtimestamp(now, UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])})
    raise InvalidRequest(
        f"`{name}` must be a date (2026-11-01), an RFC 3339 time (2026-11-01T12:00:00Z), or an age"
        " (30m, 12h, 7d).",
        param=name,
    )
