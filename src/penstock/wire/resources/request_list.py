"""Queries for lists of requests, and their rows: the slow, failed, dear or latest ones."""

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from penstock.errors import InvalidRequest
from penstock.wire.resources.moments import read_moment
from penstock.wire.resources.usage_query import (
    PERIOD_DEFAULT,
    read_limit,
    read_parameters,
    read_times,
    read_value,
)

ROWS_DEFAULT: Final = 50
ROWS_MAX: Final = 1000
PERIOD_MAX: Final = timedelta(days=31)
_ATTEMPT_MAX: Final = 10_000
_FILTERS: Final = ("account", "workflow", "model", "session", "replica", "caller_request")
_ALL: Final = (*_FILTERS, "since", "until", "order", "outcome", "drained_after", "after", "limit")


class RequestOrder(StrEnum):
    """Which requests come first."""

    LAST = "last"
    SLOW = "slow"
    DEAR = "dear"
    # As they came into the ledger, oldest first: for those who follow them.
    DRAINED = "drained"


class RequestQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempts to list. `filters` are columns of the ledger with the value that they have."""

    since: datetime
    until: datetime
    order: RequestOrder = RequestOrder.LAST
    only_failed: bool = False
    filters: dict[str, str] = {}
    # With `RequestOrder.DRAINED`: only what came into the ledger after this.
    drained_after: datetime | None = None
    # And with this attempt, which came at that very time, only what is behind it in the order.
    after: tuple[str, int] | None = None
    limit: int = ROWS_DEFAULT


class RequestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a request, in short. Unknown counts are null."""

    request: str
    attempt: int
    account: str
    key: str
    model: str
    replica: str
    session: str
    workflow: str
    contract: str
    tier: str
    asked_at: datetime
    # Null for attempts that came into the ledger before it knew.
    drained_at: datetime | None
    waited_ms: float
    first_token_ms: float | None
    duration_ms: float
    prompt_tokens: int | None
    cached_tokens: int | None
    cached_expected: int | None
    output_tokens: int | None
    outcome: str
    error: str
    session_moved: str
    cache_break: str
    charge_nanousd: int
    # What stands out, in a few words, most important first; mostly empty.
    why: tuple[str, ...] = ()


class RequestsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts in the order asked for. With `has_more`, some were left out.

    Those in the order `drained` go on behind the last: `drained_after` is its `drained_at`, and
    `after` its `request` and `attempt`, joined by a full stop.
    """

    since: datetime
    until: datetime
    order: str
    requests: list[RequestRow]
    has_more: bool
    object: str = "requests"


def read_request_query(given: Iterable[tuple[str, str]], now: float) -> RequestQuery:
    """Read a whole query; of the last hour where nothing says when."""
    params = dict(read_parameters(given, _ALL))
    # One request is looked for by its caller's id among those of many days.
    default = PERIOD_DEFAULT if "caller_request" in params else timedelta(hours=1)
    since, until = read_times(params, now, default)
    if until - since > PERIOD_MAX:
        raise InvalidRequest(f"The period is longer than {PERIOD_MAX.days} days.", param="since")
    order = RequestOrder(_one_of(params.get("order"), "order", RequestOrder, RequestOrder.LAST))
    after = params.get("drained_after")
    return RequestQuery(
        since=since,
        until=until,
        order=order,
        only_failed=_one_of(params.get("outcome"), "outcome", ("any", "failed"), "any") == "failed",
        filters={name: read_value(params[name], name) for name in _FILTERS if name in params},
        drained_after=None if after is None else read_moment(after, "drained_after", now),
        after=_read_attempt(params["after"]) if "after" in params else None,
        limit=read_limit(params.get("limit"), ROWS_DEFAULT, ROWS_MAX),
    )


def _read_attempt(text: str) -> tuple[str, int]:
    """Read the id of a request and the number of its attempt."""
    request, _, attempt = text.partition(".")
    try:
        found = str(uuid.UUID(request)), int(attempt)
    except ValueError:
        found = "", 0
    if not 1 <= found[1] <= _ATTEMPT_MAX:
        raise InvalidRequest(
            "`after` must be the id of a request, a full stop, and the number of an attempt.",
            param="after",
        )
    return found


def _one_of(text: str | None, name: str, known: Iterable[str], default: str) -> str:
    if text is None:
        return default
    names = tuple(map(str, known))
    if text not in names:
        raise InvalidRequest(f"`{name}` must be one of {', '.join(names)}.", param=name)
    return text
