"""Operations on the log of decisions. Its verification gets rows, and computes hashes itself."""

from datetime import UTC, date, datetime, timedelta
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.console.operation import Nothing, Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.contracts.decision_book import NO_HOLDER, PagePlace
from penstock.contracts.decision_chain import Keep
from penstock.contracts.decision_queries import ChainHead, DecisionRow
from penstock.metering.reports.contract_use import requests_by_contract
from penstock.policy.account_names import find_account_if_given
from penstock.wire.resources.contract_effects import ContractEffects, ContractEffectsAnswer
from penstock.wire.resources.decisions import DecisionsAnswer, read_decision_query
from penstock.wire.resources.usage_query import read_period

PAGE_ROWS = 4000
_HEADS_SINCE = timedelta(days=2)


class DecisionsAsked(OperatorQuestion, frozen=True, kw_only=True):
    """Filters of the log, as `GET /v1/decisions` takes them."""

    request: str | None = None
    since: str | None = None
    until: str | None = None
    account: str | None = None
    workflow: str | None = None
    contract: str | None = None
    kind: str | None = None
    verdict: str | None = None
    actor: str | None = None
    limit: str | None = None


class EffectsAsked(OperatorQuestion, frozen=True, kw_only=True):
    """A period of whole hours, and whose requests."""

    since: str | None = None
    until: str | None = None
    account: str | None = None
    workflow: str | None = None


class LogExtent(msgspec.Struct, frozen=True):
    """The days that have rows, and where the chains go on that retention has cut."""

    days: dict[Keep, list[date]]
    starts: list[ChainHead]


class LogPageAsked(OperatorQuestion, frozen=True, kw_only=True):
    """A page of one day, behind a row: in order of the chains' holders and numbers."""

    keep: Keep
    day: date
    holder: Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")] = (
        NO_HOLDER
    )
    sequence: Annotated[int, Meta(ge=0, le=2**62)] = 0


class LogPage(msgspec.Struct, frozen=True):
    """Rows with their hashes; fewer than `PAGE_ROWS` at the end of a day."""

    rows: list[DecisionRow]


class HeadsAnswer(msgspec.Struct, frozen=True):
    """The last row of each chain that went on in the last two days."""

    heads: list[ChainHead]


async def _list(rooms: OperatorRooms, asked: DecisionsAsked) -> DecisionsAnswer:
    given = {name: value for name, value in msgspec.structs.asdict(asked).items() if value}
    owner = await find_account_if_given(rooms.accounts, asked.account)
    if owner is not None:
        given["account"] = owner
    query = read_decision_query(given.items(), rooms.clock.now())
    return DecisionsAnswer(data=[row.answer() for row in await rooms.decisions.find(query)])


async def _effects(rooms: OperatorRooms, asked: EffectsAsked) -> ContractEffectsAnswer:
    period = read_period(asked.since, asked.until, rooms.clock.now())
    owner = await find_account_if_given(rooms.accounts, asked.account)
    requests = await requests_by_contract(rooms.reports, period, owner, asked.workflow)
    sums = await rooms.decisions.sums(period.since, period.until, owner, asked.workflow)
    return ContractEffectsAnswer(
        since=period.since,
        until=period.until,
        contracts=[
            ContractEffects(
                contract=name, requests=requests.get(name, 0), decisions=sums.get(name, [])
            )
            for name in sorted(
                requests.keys() | sums.keys(), key=lambda each: (-requests.get(each, 0), each)
            )
        ],
    )


async def _extent(rooms: OperatorRooms, _: Nothing) -> LogExtent:
    days = {keep: await rooms.decisions.days(keep) for keep in Keep}
    return LogExtent(days, await rooms.decisions.starts())


async def _page(rooms: OperatorRooms, asked: LogPageAsked) -> LogPage:
    place = PagePlace(keep=asked.keep, day=asked.day, holder=asked.holder, sequence=asked.sequence)
    return LogPage(await rooms.decisions.page(place, PAGE_ROWS))


async def _heads(rooms: OperatorRooms, _: Nothing) -> HeadsAnswer:
    since = datetime.fromtimestamp(rooms.clock.now(), UTC) - _HEADS_SINCE
    return HeadsAnswer(await rooms.decisions.heads(since.date()))


LIST_DECISIONS = Operation(
    name="list_decisions",
    summary="List what contracts decided and what operators did, newest first.",
    method="GET",
    path="/decisions",
    question=DecisionsAsked,
    answer=DecisionsAnswer,
    run=_list,
)
SHOW_CONTRACT_EFFECTS = Operation(
    name="show_contract_effects",
    summary="Show what contracts did in a period, counted.",
    method="GET",
    path="/contract-effects",
    question=EffectsAsked,
    answer=ContractEffectsAnswer,
    run=_effects,
)
SHOW_LOG_EXTENT = Operation(
    name="show_decision_days",
    summary="Show the days that the log of decisions has, for its verification.",
    method="GET",
    path="/decisions/days",
    question=Nothing,
    answer=LogExtent,
    run=_extent,
)
READ_LOG_PAGE = Operation(
    name="read_decision_page",
    summary="Read rows of one day with their hashes, for the log's verification.",
    method="GET",
    path="/decisions/pages",
    question=LogPageAsked,
    answer=LogPage,
    run=_page,
)
SHOW_HEADS = Operation(
    name="show_decision_heads",
    summary="Show the last row of each chain, to be held outside.",
    method="GET",
    path="/decisions/heads",
    question=Nothing,
    answer=HeadsAnswer,
    run=_heads,
)
DECISION_OPERATIONS = (
    LIST_DECISIONS,
    SHOW_CONTRACT_EFFECTS,
    SHOW_LOG_EXTENT,
    READ_LOG_PAGE,
    SHOW_HEADS,
)
