"""Reads queries about usage strictly: parameters in, one typed query out.

Shared by `GET /v1/usage` and `penstock usage`, so that both accept and refuse the same.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

import msgspec

from penstock.errors import InvalidRequest
from penstock.wire.resources.moments import read_moment

ROWS_MAX: Final = 10_000
ROWS_DEFAULT: Final = 1000
PERIOD_DEFAULT: Final = timedelta(hours=24)

_HOUR: Final = timedelta(hours=1)
_VALUE_CHARS_MAX: Final = 256
_NAME_CHARS_MAX: Final = 64


class Label(StrEnum):
    """The labels by which usage is grouped and filtered."""

    ACCOUNT = "account"
    KEY = "key"
    MODEL = "model"
    TIER = "tier"
    WORKFLOW = "workflow"
    SESSION = "session"
    PROMPT_FAMILY = "prompt_family"
    REPLICA = "replica"


class Step(StrEnum):
    """The length of each row's part of the period."""

    HOUR = "hour"
    DAY = "day"


_IN_ROWS_ONLY: Final = frozenset({Label.SESSION, Label.PROMPT_FAMILY})
# The labels of the hourly sums by replica.
_OF_REPLICAS: Final = frozenset({Label.REPLICA, Label.ACCOUNT, Label.MODEL, Label.TIER})
_PERIOD: Final = ("since", "until", "limit")
_ALL: Final = (*_PERIOD, "by", "group_by", *Label)


class UsageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One query. The period is whole hours: from `since` up to, not including, `until`."""

    since: datetime
    until: datetime
    group_by: tuple[Label, ...] = ()
    by: Step | None = None
    filters: dict[Label, str] = {}
    limit: int = ROWS_DEFAULT

    @property
    def labels(self) -> frozenset[Label]:
        """Every label that the query groups or filters by."""
        return frozenset(self.group_by) | frozenset(self.filters)

    @property
    def needs_attempts(self) -> bool:
        """Whether no hourly sums answer it: they lack sessions and prompt families."""
        is_mixed = Label.REPLICA in self.labels and not self.labels <= _OF_REPLICAS
        return is_mixed or bool(self.labels & _IN_ROWS_ONLY)


class ReportPeriod(msgspec.Struct, frozen=True, kw_only=True):
    """A period of whole hours: from `since` up to, not including, `until`."""

    since: datetime
    until: datetime


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The turns of one session in a period of whole hours."""

    account: str
    session: str
    since: datetime
    until: datetime
    limit: int = ROWS_DEFAULT


def read_usage_query(given: Iterable[tuple[str, str]], now: float) -> UsageQuery:
    """Read a whole query; parameters that are absent have defaults."""
    params = read_parameters(given, _ALL)
    since, until = _period(params, now)
    return UsageQuery(
        since=since,
        until=until,
        group_by=_group_by(params.get("group_by", "")),
        by=_step(params.get("by")),
        filters={label: read_value(params[label], label) for label in Label if label in params},
        limit=read_limit(params.get("limit"), ROWS_DEFAULT, ROWS_MAX),
    )


def read_session_query(
    given: Iterable[tuple[str, str]], session: str, now: float, *, account: str | None
) -> SessionQuery:
    """Read a session's query. Operators name the account; others have theirs (`account`)."""
    params = read_parameters(given, (*_PERIOD, Label.ACCOUNT))
    since, until = _period(params, now)
    owner = account if account is not None else params.get(Label.ACCOUNT)
    if owner is None:
        raise InvalidRequest("`account` is required: a session is an account's.", param="account")
    return SessionQuery(
        account=read_value(owner, "account"),
        session=read_value(session, "session"),
        since=since,
        until=until,
        limit=read_limit(params.get("limit"), ROWS_DEFAULT, ROWS_MAX),
    )


def read_period(since: str | None, until: str | None, now: float) -> ReportPeriod:
    """Read a period alone, for an export."""
    said = {"since": since, "until": until}
    begin, end = _period({name: text for name, text in said.items() if text is not None}, now)
    return ReportPeriod(since=begin, until=end)


def read_parameters(given: Iterable[tuple[str, str]], allowed: Iterable[str]) -> Mapping[str, str]:
    """Return parameters by name, each at most once; refuse unknown ones, naming those allowed."""
    names = tuple(map(str, allowed))
    there_are = f"there are {', '.join(names)}" if names else "there are none here"
    params: dict[str, str] = {}
    for name, value in given:
        if name not in names:
            shown = name[:_NAME_CHARS_MAX]
            raise InvalidRequest(f"There is no parameter `{shown}`; {there_are}.", param=shown)
        if name in params:
            raise InvalidRequest(f"`{name}` is given twice.", param=name)
        params[name] = value
    return params


def read_value(text: str, name: str) -> str:
    """Return a label's value to look for; refuse one that could never have been stored."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"`{name}` is not UTF-8.", param=name) from None
    if len(text) > _VALUE_CHARS_MAX or "\0" in text:
        raise InvalidRequest(f"`{name}` must be at most {_VALUE_CHARS_MAX} characters.", param=name)
    return text


def _period(params: Mapping[str, str], now: float) -> tuple[datetime, datetime]:
    since, until = read_times(params, now)
    begin, end = _hour(since), _hour(until)
    return begin, end if end == until else end + _HOUR


def read_times(
    params: Mapping[str, str], now: float, default: timedelta = PERIOD_DEFAULT
) -> tuple[datetime, datetime]:
    """Return `since` and `until`, which may be absent, to the microsecond."""
    until = datetime.fromtimestamp(now, UTC)
    if "until" in params:
        until = read_moment(params["until"], "until", now)
    since = until - default
    if "since" in params:
        since = read_moment(params["since"], "since", now)
    if since >= until:
        raise InvalidRequest("`since` must be before `until`.", param="since")
    return since, until


def _hour(time: datetime) -> datetime:
    return time.replace(minute=0, second=0, microsecond=0)


def _group_by(text: str) -> tuple[Label, ...]:
    names = text.split(",") if text else []
    known = frozenset(map(str, Label))
    if any(name not in known for name in names) or len(set(names)) < len(names):
        raise InvalidRequest(
            f"`group_by` is a comma list of {', '.join(Label)}, each once.", param="group_by"
        )
    return tuple(Label(name) for name in names)


def _step(text: str | None) -> Step | None:
    if text is None:
        return None
    if text not in frozenset(map(str, Step)):
        raise InvalidRequest(f"`by` must be one of {', '.join(Step)}.", param="by")
    return Step(text)


def read_limit(text: str | None, default: int, most: int) -> int:
    """Return how many rows are asked for."""
    if text is None:
        return default
    is_number = text.isascii() and text.isdigit() and len(text) <= 5
    if not is_number or not 1 <= int(text) <= most:
        raise InvalidRequest(f"`limit` must be a whole number from 1 to {most}.", param="limit")
    return int(text)
