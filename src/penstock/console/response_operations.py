"""Operations on stored responses: facts about them, and their deletion; never their content."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.clock import timestamp_of
from penstock.console.operation import Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.errors import NotFound
from penstock.policy.account_names import account_names, find_account_if_given
from penstock.records.job import JobId
from penstock.sessions import ResponseFacts, ResponseId
from penstock.sessions.response_ids import read_response_id, shown


class ShownResponse(msgspec.Struct, frozen=True):
    """A stored response without its content."""

    id: str
    account: str
    key: str
    model: str
    previous: str | None
    status: str
    created_at: datetime
    bytes: int


class ResponsesAsked(OperatorQuestion, frozen=True, kw_only=True):
    """Filters of a list; `after` is the last id of the page before."""

    account: str | None = None
    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 20


class ResponsesAnswer(msgspec.Struct, frozen=True):
    """A page of responses, newest first."""

    responses: list[ShownResponse]
    account_names: dict[str, str]


class ResponseNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One response, by the id that its caller got."""

    id: str


class DeletedResponse(msgspec.Struct, frozen=True):
    """A response that is deleted."""

    id: str
    deleted: bool = True


async def _list(rooms: OperatorRooms, asked: ResponsesAsked) -> ResponsesAnswer:
    before = None if asked.after is None else _read(asked.after)
    owner = await find_account_if_given(rooms.accounts, asked.account)
    page = await rooms.responses.page(owner, before, asked.limit)
    return ResponsesAnswer([_shown(each) for each in page], await account_names(rooms.accounts))


async def _show(rooms: OperatorRooms, asked: ResponseNamed) -> ShownResponse:
    return _shown(await _find(rooms, asked.id))


async def _delete(rooms: OperatorRooms, asked: ResponseNamed) -> DeletedResponse:
    found = await _find(rooms, asked.id)
    async with rooms.kept() as kept:
        # A background response that is not ended must not be run for nothing.
        await kept.desk.cancel(found.account, JobId(found.id))
        await kept.responses.delete(found)
        await kept.desk.delete(found.account, JobId(found.id))
    return DeletedResponse(shown(found.id))


async def _find(rooms: OperatorRooms, id: str) -> ResponseFacts:
    found = await rooms.responses.describe(_read(id))
    if found is None:
        raise NotFound(f"There is no response {id}.")
    return found


def _read(id: str) -> ResponseId:
    read = read_response_id(id)
    if read is None:
        raise NotFound(f"There is no response {id}: ids look like resp_0198….")
    return read


def _shown(each: ResponseFacts) -> ShownResponse:
    return ShownResponse(
        id=shown(each.id),
        account=each.account,
        key=each.key,
        model=each.model,
        previous=None if each.previous is None else shown(each.previous),
        status=each.status,
        created_at=datetime.fromtimestamp(timestamp_of(each.id), UTC),
        bytes=each.bytes,
    )


LIST_RESPONSES = Operation(
    name="list_responses",
    summary="List stored responses, newest first, without what was asked or answered.",
    method="GET",
    path="/responses",
    question=ResponsesAsked,
    answer=ResponsesAnswer,
    run=_list,
)
SHOW_RESPONSE = Operation(
    name="show_response",
    summary="Show what is known of one response, without its content.",
    method="GET",
    path="/responses/{id}",
    question=ResponseNamed,
    answer=ShownResponse,
    run=_show,
)
DELETE_RESPONSE = Operation(
    name="delete_response",
    summary="Delete a response, with its content.",
    method="DELETE",
    path="/responses/{id}",
    question=ResponseNamed,
    answer=DeletedResponse,
    run=_delete,
)
RESPONSE_OPERATIONS = (LIST_RESPONSES, SHOW_RESPONSE, DELETE_RESPONSE)
