"""Operations for the people on call: steady sessions, lists of requests, one request explained."""

import msgspec

from penstock.console.operation import Operation, OperatorQuestion, given_fields
from penstock.console.request_ids import request_id_of
from penstock.console.rooms import OperatorRooms
from penstock.errors import NotFound
from penstock.metering.reports.explaining import (
    explain_attempts,
    explain_refusal,
    summary_of,
)
from penstock.metering.reports.request_list import list_requests
from penstock.metering.reports.sessions import list_sessions
from penstock.metering.reports.stability import report_stability
from penstock.metering.reports.surroundings import (
    Surroundings,
    read_refused,
    read_surroundings,
)
from penstock.metering.reports.usage_reports import time_of_request
from penstock.policy.account_names import account_names, find_account
from penstock.wire.resources.decisions import DecisionAnswer, read_decision_query
from penstock.wire.resources.explanation import ExplanationAnswer
from penstock.wire.resources.request_list import RequestsAnswer, read_request_query
from penstock.wire.resources.session_list import (
    SessionsAnswer,
    StabilityAnswer,
    read_session_list_query,
)
from penstock.wire.resources.usage import RequestAnswer


class StabilityAsked(OperatorQuestion, frozen=True, kw_only=True):
    """The period, and which workflows."""

    since: str | None = None
    until: str | None = None
    account: str | None = None
    workflow: str | None = None
    limit: str | None = None


class SessionsAsked(OperatorQuestion, frozen=True, kw_only=True):
    """The period, whose days count as a whole, which sessions, and which of them first."""

    since: str | None = None
    until: str | None = None
    account: str | None = None
    workflow: str | None = None
    order: str | None = None
    limit: str | None = None


class RequestsAsked(OperatorQuestion, frozen=True, kw_only=True):
    """The period, which requests, and which of them first."""

    since: str | None = None
    until: str | None = None
    account: str | None = None
    workflow: str | None = None
    model: str | None = None
    session: str | None = None
    replica: str | None = None
    caller_request: str | None = None
    order: str | None = None
    outcome: str | None = None
    drained_after: str | None = None
    after: str | None = None
    limit: str | None = None


class RequestExplained(OperatorQuestion, frozen=True, kw_only=True):
    """One request, by its id, or by the id of its trace if no caller named another one."""

    id: str


class NamedStability(msgspec.Struct, frozen=True):
    """How steady sessions were, and the names of accounts that no other account has."""

    stability: StabilityAnswer
    account_names: dict[str, str]


class NamedSessions(msgspec.Struct, frozen=True):
    """Sessions, and the names of accounts that no other account has."""

    sessions: SessionsAnswer
    account_names: dict[str, str]


class NamedRequests(msgspec.Struct, frozen=True):
    """Requests, and the names of accounts that no other account has."""

    requests: RequestsAnswer
    account_names: dict[str, str]


async def _stability(rooms: OperatorRooms, asked: StabilityAsked) -> NamedStability:
    query = read_session_list_query((await _given(rooms, asked)).items(), rooms.clock.now())
    found = await report_stability(rooms.reports, query)
    return NamedStability(found, await account_names(rooms.accounts))


async def _sessions(rooms: OperatorRooms, asked: SessionsAsked) -> NamedSessions:
    query = read_session_list_query((await _given(rooms, asked)).items(), rooms.clock.now())
    found = await list_sessions(rooms.reports, query)
    return NamedSessions(found, await account_names(rooms.accounts))


async def _requests(rooms: OperatorRooms, asked: RequestsAsked) -> NamedRequests:
    query = read_request_query((await _given(rooms, asked)).items(), rooms.clock.now())
    found = await list_requests(rooms.reports, query)
    return NamedRequests(found, await account_names(rooms.accounts))


async def _explain(rooms: OperatorRooms, asked: RequestExplained) -> ExplanationAnswer:
    id = request_id_of(asked.id) or asked.id
    asked_at = time_of_request(id)
    request = await _request(rooms, id)
    decisions = await _decisions(rooms, id)
    around, refused = Surroundings([], None), []
    if request is not None:
        around = await read_surroundings(rooms.reports, request.attempts[-1])
        findings = explain_attempts(request.attempts, decisions, around)
    else:
        owner = decisions[0].account if decisions else None
        refused = await read_refused(rooms.reports, asked_at, owner)
        findings = explain_refusal(decisions, refused)
    return ExplanationAnswer(
        id=id,
        own_trace=id.replace("-", ""),
        asked_at=asked_at,
        summary=summary_of(findings),
        findings=findings,
        request=request,
        decisions=decisions,
        replicas=around.replicas,
        usual=around.usual,
        refused=refused,
    )


async def _request(rooms: OperatorRooms, id: str) -> RequestAnswer | None:
    try:
        return await rooms.reports.request(id)
    except NotFound:
        return None


async def _decisions(rooms: OperatorRooms, id: str) -> list[DecisionAnswer]:
    query = read_decision_query([("request", id)], rooms.clock.now())
    return [row.answer() for row in await rooms.decisions.find(query)]


async def _given(rooms: OperatorRooms, asked: OperatorQuestion) -> dict[str, str]:
    """Return the fields that the question has, by name; an account by its id."""
    given = given_fields(asked)
    if "account" in given:
        given["account"] = await find_account(rooms.accounts, given["account"])
    return given


SHOW_STABILITY = Operation(
    name="show_stability",
    summary="Show how steady sessions are, by workflow.",
    method="GET",
    path="/usage/stability",
    question=StabilityAsked,
    answer=NamedStability,
    run=_stability,
)
LIST_SESSIONS = Operation(
    name="list_sessions",
    summary="List sessions: the dearest, those that grow fastest, those that moved.",
    method="GET",
    path="/usage/sessions",
    question=SessionsAsked,
    answer=NamedSessions,
    run=_sessions,
)
LIST_REQUESTS = Operation(
    name="list_requests",
    summary="List requests: the slowest, the dearest, the failed, the latest.",
    method="GET",
    path="/requests",
    question=RequestsAsked,
    answer=NamedRequests,
    run=_requests,
)
EXPLAIN_REQUEST = Operation(
    name="explain_request",
    summary="Explain one request: why it was slow, dear, served so, or refused.",
    method="GET",
    path="/requests/{id}/explanation",
    question=RequestExplained,
    answer=ExplanationAnswer,
    run=_explain,
)
INCIDENT_OPERATIONS = (SHOW_STABILITY, LIST_SESSIONS, LIST_REQUESTS, EXPLAIN_REQUEST)
