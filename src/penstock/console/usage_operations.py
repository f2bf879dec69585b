"""Operations that report usage and its cost."""

import asyncio
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.console.operation import Operation, OperatorQuestion, given_fields
from penstock.console.rooms import OperatorRooms
from penstock.errors import InvalidRequest, NotFound
from penstock.metering import PriceBook
from penstock.metering.reports.export import read_charges
from penstock.metering.reports.focus import Charge
from penstock.policy.account_names import account_names, find_account
from penstock.wire.resources.difference_query import DifferenceQuery, read_difference_query
from penstock.wire.resources.usage import RequestAnswer, SessionAnswer, UsageAnswer
from penstock.wire.resources.usage_difference import DifferenceAnswer
from penstock.wire.resources.usage_query import (
    ReportPeriod,
    SessionQuery,
    UsageQuery,
    read_session_query,
    read_usage_query,
)


class UsageAsked(OperatorQuestion, frozen=True, kw_only=True):
    """A report's period, its rows and its filters, as `GET /v1/usage` takes them."""

    since: str | None = None
    until: str | None = None
    by: str | None = None
    group_by: str | None = None
    account: str | None = None
    key: str | None = None
    model: str | None = None
    tier: str | None = None
    workflow: str | None = None
    session: str | None = None
    prompt_family: str | None = None
    replica: str | None = None
    limit: str | None = None


class DifferenceAsked(OperatorQuestion, frozen=True, kw_only=True):
    """Two periods to compare: `since` to `until`, against `before`, `week` or another start."""

    since: str | None = None
    until: str | None = None
    against: str | None = None
    by: str | None = None
    account: str | None = None
    workflow: str | None = None


class NamedDifference(msgspec.Struct, frozen=True):
    """A comparison, and the names of accounts that no other account has."""

    difference: DifferenceAnswer
    account_names: dict[str, str]


class NamedUsage(msgspec.Struct, frozen=True):
    """A report, and the names of accounts that no other account has."""

    usage: UsageAnswer
    account_names: dict[str, str]


class SessionAsked(OperatorQuestion, frozen=True, kw_only=True):
    """A session's turns; of the only account that has it if none is named."""

    session: str
    account: str | None = None
    since: str | None = None
    until: str | None = None
    limit: str | None = None


class RequestNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One request, by its id."""

    id: str


class ChargesAsked(OperatorQuestion, frozen=True, kw_only=True):
    """A page of the charges of one hour, from the `first` group of charges on."""

    hour: datetime
    first: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0


class ChargesAnswer(msgspec.Struct, frozen=True):
    """Charges; `next` is the `first` of the following page of that hour."""

    charges: list[Charge]
    next: int | None


def usage_query(asked: UsageAsked, now: float) -> UsageQuery:
    """Read a report's question; InvalidRequest names what is wrong with it."""
    return read_usage_query(given_fields(asked).items(), now)


def session_query(asked: SessionAsked, now: float) -> SessionQuery:
    """Read a session's question; its account may be a name, or empty."""
    given = given_fields(asked)
    account, session = given.pop("account", ""), given.pop("session")
    return read_session_query(given.items(), session, now, account=account)


def difference_query(asked: DifferenceAsked, now: float) -> DifferenceQuery:
    """Read a comparison's question; InvalidRequest names what is wrong with it."""
    return read_difference_query(given_fields(asked).items(), now)


async def _usage(rooms: OperatorRooms, asked: UsageAsked) -> NamedUsage:
    if asked.account is not None:
        owner = await find_account(rooms.accounts, asked.account)
        asked = msgspec.structs.replace(asked, account=owner)
    query = usage_query(asked, rooms.clock.now())
    return NamedUsage(await rooms.reports.usage(query), await account_names(rooms.accounts))


async def _difference(rooms: OperatorRooms, asked: DifferenceAsked) -> NamedDifference:
    if asked.account is not None:
        owner = await find_account(rooms.accounts, asked.account)
        asked = msgspec.structs.replace(asked, account=owner)
    query = difference_query(asked, rooms.clock.now())
    # Its files may have changed, and reading them takes a while, in which control serves others.
    catalogue = await asyncio.to_thread(rooms.catalogue)
    found = await rooms.reports.difference(query, PriceBook(catalogue.models))
    return NamedDifference(found, await account_names(rooms.accounts))


async def _session(rooms: OperatorRooms, asked: SessionAsked) -> SessionAnswer:
    query = session_query(asked, rooms.clock.now())
    if query.account:
        owner = str(await find_account(rooms.accounts, query.account))
    else:
        owner = await _owner(rooms, query)
    return await rooms.reports.session(msgspec.structs.replace(query, account=owner))


async def _owner(rooms: OperatorRooms, query: SessionQuery) -> str:
    known: dict[str, str] = {each.id: each.name for each in await rooms.accounts.list()}
    period = ReportPeriod(since=query.since, until=query.until)
    found = await rooms.reports.accounts_of_session(query.session, period, list(known))
    if not found:
        raise NotFound("There are no turns of that session in that period.")
    if len(found) > 1:
        named = ", ".join(f"{known[id]} ({id})" for id in found)
        raise InvalidRequest(
            f"Several accounts have a session {query.session}: {named}. Name one with --account"
            " (`account`).",
            param="account",
        )
    return found[0]


async def _request(rooms: OperatorRooms, asked: RequestNamed) -> RequestAnswer:
    return await rooms.reports.request(asked.id)


async def _charges(rooms: OperatorRooms, asked: ChargesAsked) -> ChargesAnswer:
    if asked.hour.tzinfo is None or asked.hour != asked.hour.replace(
        minute=0, second=0, microsecond=0
    ):
        raise InvalidRequest("`hour` must be the start of an hour, in UTC.", param="hour")
    names = {str(each.id): each.name for each in await rooms.accounts.list()}
    charges, next_ = await read_charges(rooms.store, asked.hour, asked.first, names)
    return ChargesAnswer(charges, next_)


SHOW_USAGE = Operation(
    name="show_usage",
    summary="Show usage and cost by label and time.",
    method="GET",
    path="/usage",
    question=UsageAsked,
    answer=NamedUsage,
    run=_usage,
)
SHOW_DIFFERENCE = Operation(
    name="show_difference",
    summary="Compare the cost of two periods, and split each change into its causes.",
    method="GET",
    path="/usage/difference",
    question=DifferenceAsked,
    answer=NamedDifference,
    run=_difference,
)
SHOW_SESSION = Operation(
    name="show_session",
    summary="Show a session's turns.",
    method="GET",
    path="/usage/session",
    question=SessionAsked,
    answer=SessionAnswer,
    run=_session,
)
SHOW_REQUEST = Operation(
    name="show_request",
    summary="Show one request: each attempt, what it used, and how its charge was calculated.",
    method="GET",
    path="/usage/requests/{id}",
    question=RequestNamed,
    answer=RequestAnswer,
    run=_request,
)
LIST_CHARGES = Operation(
    name="list_charges",
    summary="List the charges of one hour, for an export.",
    method="GET",
    path="/usage/charges",
    question=ChargesAsked,
    answer=ChargesAnswer,
    run=_charges,
)
USAGE_OPERATIONS = (SHOW_USAGE, SHOW_DIFFERENCE, SHOW_SESSION, SHOW_REQUEST, LIST_CHARGES)
