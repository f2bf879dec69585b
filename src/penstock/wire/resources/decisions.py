"""Queries about the log of decisions, and its rows as callers and commands get them."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, TypeVar

import msgspec

from penstock.clock import timestamp_of
from penstock.errors import InvalidRequest
from penstock.records.decision import DecisionKind, DecisionVerdict
from penstock.wire.resources.usage_query import (
    PERIOD_DEFAULT,
    read_limit,
    read_parameters,
    read_times,
    read_value,
)

ROWS_DEFAULT: Final = 100
ROWS_MAX: Final = 5000
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_TEXTS: Final = ("account", "workflow", "contract", "actor")
PARAMETERS: Final = ("since", "until", "request", "kind", "verdict", "limit", *_TEXTS)
_Name = TypeVar("_Name", bound=StrEnum)


class DecisionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which decisions to read; None is any. `contract` is a name, or a name with its version."""

    since: datetime
    until: datetime
    request: str | None = None
    account: str | None = None
    workflow: str | None = None
    contract: str | None = None
    kind: DecisionKind | None = None
    verdict: DecisionVerdict | None = None
    actor: str | None = None
    limit: int = ROWS_DEFAULT


class DecisionChainPlace(msgspec.Struct, frozen=True):
    """Where a row stands in its chain, with its hash and the one before it."""

    keep: str
    holder: str
    sequence: int
    previous: str
    hash: str


class DecisionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One decision. An observed one did not happen; `request` is null for an operator's act."""

    at: datetime
    request: str | None
    account: str
    key: str
    workflow: str
    contract: str
    kind: str
    verdict: str
    is_observed: bool
    subjects: tuple[str, ...]
    reason: str
    facts: dict[str, str | int]
    actor: str
    chain: DecisionChainPlace


class DecisionsAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Decisions, newest first."""

    object: str = "list"
    data: list[DecisionAnswer]


def read_decision_query(given: Iterable[tuple[str, str]], now: float) -> DecisionQuery:
    """Read a whole query; one about a request begins before the time in its id."""
    params = read_parameters(given, PARAMETERS)
    request = params.get("request")
    if request is not None and not _UUID.fullmatch(request):
        raise InvalidRequest("`request` is the id of a request, a UUID.", param="request")
    since, until = read_times(params, now)
    if request is not None and "since" not in params:
        # Its decisions are later than the time in its id, but for clocks that differ.
        since = min(since, _time_of(request) - PERIOD_DEFAULT)
    texts = {name: read_value(params[name], name) for name in _TEXTS if name in params}
    return DecisionQuery(
        since=since,
        until=until,
        request=request,
        kind=_name(params, "kind", DecisionKind),
        verdict=_name(params, "verdict", DecisionVerdict),
        limit=read_limit(params.get("limit"), ROWS_DEFAULT, ROWS_MAX),
        **texts,
    )


def _time_of(request: str) -> datetime:
    try:
        return datetime.fromtimestamp(timestamp_of(request), UTC)
    except (OverflowError, ValueError):
        return datetime.fromtimestamp(0, UTC) + PERIOD_DEFAULT


def _name(params: Mapping[str, str], name: str, known: type[_Name]) -> _Name | None:
    text = params.get(name)
    if text is None:
        return None
    if text not in frozenset(map(str, known)):
        raise InvalidRequest(f"`{name}` must be one of {', '.join(known)}.", param=name)
    return known(text)
