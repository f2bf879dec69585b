"""How steady sessions are, by workflow, and lists of sessions."""

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from penstock.errors import InvalidRequest
from penstock.wire.resources.usage_query import (
    ReportPeriod,
    read_limit,
    read_parameters,
    read_period,
    read_value,
)

ROWS_DEFAULT: Final = 100
ROWS_MAX: Final = 1000
PERIOD_MAX: Final = timedelta(days=31)
_FILTERS: Final = ("account", "workflow")


class SessionOrder(StrEnum):
    """Which sessions come first."""

    COST = "cost"
    SLOPE = "slope"
    MOVES = "moves"
    BREAKS = "breaks"
    LAST = "last"


class StabilityRow(msgspec.Struct, frozen=True, kw_only=True):
    """How steady the sessions of one account's workflow were. An unknown share is null."""

    account: str
    workflow: str
    requests: int
    # Requests that named a session, and those that left its last replica, by reason.
    session_turns: int
    moved_load: int
    moved_drain: int
    moved_lost: int
    stayed: float | None
    # Requests that clients sent as a retry, how many were served, and of those in a session how
    # many stayed on its replica.
    retried: int
    retry_success: float | None
    retries_stayed: float | None
    cache_breaks: int
    # Of prompt tokens: what routing expected to be cached, and what was.
    hit_expected: float | None
    hit_counted: float | None
    first_token_p50_ms: float | None
    first_token_p95_ms: float | None
    # The same hit ratio by hour or day of the period, for a line; null where there was nothing.
    hits: list[float | None]


class StabilityAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Workflows, most turns first. Each of a row's `hits` is of `step_seconds`."""

    since: datetime
    until: datetime
    step_seconds: int
    rows: list[StabilityRow]
    has_more: bool
    object: str = "usage.stability"


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """One session, over the days that were asked for."""

    account: str
    session: str
    workflow: str
    model: str
    turns: int
    first_at: datetime
    last_at: datetime
    prompt_last: int | None
    prompt_max: int | None
    # By how many tokens the prompt grows from turn to turn.
    prompt_growth_tokens: float | None
    hit_ratio: float | None
    output_tokens: int
    moves: int
    cache_breaks: int
    cost_nanousd: int
    cost_usd: str


class SessionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions of whole days, in UTC. With `has_more`, some were left out."""

    first_day: date
    last_day: date
    order: str
    sessions: list[SessionRow]
    has_more: bool
    object: str = "usage.sessions"


class SessionListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions to list, or which workflows."""

    period: ReportPeriod
    order: SessionOrder = SessionOrder.COST
    filters: dict[str, str] = {}
    limit: int = ROWS_DEFAULT


def read_session_list_query(given: Iterable[tuple[str, str]], now: float) -> SessionListQuery:
    """Read a whole query; of the last 24 hours if nothing says when."""
    params = read_parameters(given, (*_FILTERS, "since", "until", "order", "limit"))
    period = read_period(params.get("since"), params.get("until"), now)
    if period.until - period.since > PERIOD_MAX + timedelta(hours=1):
        raise InvalidRequest(f"The period is longer than {PERIOD_MAX.days} days.", param="since")
    text = params.get("order", SessionOrder.COST)
    if text not in frozenset(map(str, SessionOrder)):
        raise InvalidRequest(f"`order` must be one of {', '.join(SessionOrder)}.", param="order")
    return SessionListQuery(
        period=period,
        order=SessionOrder(text),
        filters={name: read_value(params[name], name) for name in _FILTERS if name in params},
        limit=read_limit(params.get("limit"), ROWS_DEFAULT, ROWS_MAX),
    )
