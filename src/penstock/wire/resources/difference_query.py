"""Reads the query of a difference strictly: which period, against which, by which labels.

Both periods are whole hours that are over, and of one length: an hour that still runs would look
like a fall.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from penstock.errors import InvalidRequest
from penstock.wire.resources.moments import read_moment
from penstock.wire.resources.usage_query import (
    Label,
    read_parameters,
    read_period,
    read_value,
)

BEFORE: Final = "before"
WEEK: Final = "week"

_ROWS: Final = (Label.ACCOUNT, Label.WORKFLOW)
_ALL: Final = ("since", "until", "against", "by", *_ROWS)


class DifferenceQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One query: from `since` up to `until`, against the same length from `against_since` on."""

    since: datetime
    until: datetime
    against_since: datetime
    # The labels of a row.
    by: tuple[Label, ...] = _ROWS
    filters: dict[Label, str] = {}

    @property
    def against_until(self) -> datetime:
        return self.against_since + (self.until - self.since)


def read_difference_query(given: Iterable[tuple[str, str]], now: float) -> DifferenceQuery:
    """Read a whole query; parameters that are absent have defaults."""
    params = read_parameters(given, _ALL)
    present_hour = _hour(datetime.fromtimestamp(now, UTC))
    period = read_period(params.get("since"), params.get("until"), now)
    until = min(period.until, present_hour)
    if period.since >= until:
        raise InvalidRequest("No hour of that period is over yet.", param="since")
    against = _against(params.get("against", BEFORE), period.since, until, now)
    query = DifferenceQuery(
        since=period.since,
        until=until,
        against_since=against,
        by=_by(params.get("by")),
        filters={label: read_value(params[label], label) for label in _ROWS if label in params},
    )
    if query.against_until > query.since and query.until > query.against_since:
        raise InvalidRequest(
            "The two periods overlap: compare a shorter one, or one against the time before it.",
            param="against",
        )
    if query.against_until > present_hour:
        raise InvalidRequest("The period to compare with is not over yet.", param="against")
    return query


def _against(text: str, since: datetime, until: datetime, now: float) -> datetime:
    if text == BEFORE:
        return since - (until - since)
    if text == WEEK:
        return since - timedelta(days=7)
    try:
        return _hour(read_moment(text, "against", now))
    except InvalidRequest:
        raise InvalidRequest(
            f"`against` is `{BEFORE}` (the time just before), `{WEEK}` (the same time a week"
            " earlier), or when the other period begins: a date, an RFC 3339 time or an age.",
            param="against",
        ) from None


def _by(text: str | None) -> tuple[Label, ...]:
    if text is None:
        return _ROWS
    if text not in _ROWS:
        raise InvalidRequest("`by` must be `workflow` or `account`.", param="by")
    return (Label(text),)


def _hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)
