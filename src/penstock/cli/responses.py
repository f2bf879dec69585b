"""`penstock responses`: lists, shows and deletes stored responses, never their content."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer

from penstock.cli.account_names import account_names, find_account_if_given
from penstock.cli.job_facts import print_facts
from penstock.cli.kept_rooms import kept_rooms
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import error_console, print_json, print_table
from penstock.cli.postgres import opened
from penstock.cli.table import Column, Columns
from penstock.clock import timestamp_of
from penstock.errors import NotFound
from penstock.records.job import JobId
from penstock.sessions import ResponseFacts, ResponseId
from penstock.sessions.response_ids import read_response_id, shown
from penstock.turns.forgetting import KeptRooms

app = typer.Typer(help="List, show and delete stored responses.", no_args_is_help=True)

_COLUMNS: Columns = (
    *("id", "status", "model"),
    Column("bytes", is_right=True),
    Column("stored", is_optional=True),
    Column("account", is_optional=True),
)
_Id = Annotated[str, typer.Argument(metavar="ID", help="The id that its caller got: resp_….")]
_Answer = TypeVar("_Answer")


@app.command(name="list")
def list_(
    context: typer.Context,
    *,
    account: Annotated[str | None, typer.Option(help="Only this account's, by name or id.")] = None,
    after: Annotated[str | None, typer.Option(help="Only older than this response.")] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=1000)] = 20,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """List stored responses, newest first: facts about them, not what was asked or answered."""
    before = None if after is None else _read(after)

    async def run(rooms: KeptRooms) -> tuple[list[ResponseFacts], dict[str, str]]:
        owner = await find_account_if_given(rooms.store, account)
        page = await rooms.responses.page(owner, before, limit)
        return page, dict(await account_names(rooms.store))

    page, names = _ask(context, state, run)
    if json:
        print_json([_facts(each) for each in page])
        return
    rows = [
        (
            shown(each.id),
            each.status,
            each.model,
            str(each.bytes),
            _time(each),
            names.get(each.account, each.account),
        )
        for each in page
    ]
    print_table(_COLUMNS, rows)
    if len(page) == limit:
        error_console().print(f"There may be more: --after {shown(page[-1].id)}")


@app.command()
def show(
    context: typer.Context, id: _Id, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Show what is known of one response, without its content."""
    found = _ask(context, state, lambda rooms: _find(rooms, id))
    if json:
        print_json(_facts(found))
    else:
        print_facts(_facts(found))


@app.command()
def delete(
    context: typer.Context, id: _Id, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Delete one response, with its content. What goes on from it can no longer be continued."""

    async def run(rooms: KeptRooms) -> ResponseFacts:
        found = await _find(rooms, id)
        # A background response that is not ended must not be run for nothing.
        await rooms.desk.cancel(found.account, JobId(found.id))
        await rooms.responses.delete(found)
        await rooms.desk.delete(found.account, JobId(found.id))
        return found

    deleted = _ask(context, state, run)
    if json:
        print_json({"id": shown(deleted.id), "deleted": True})
    else:
        typer.echo(f"{shown(deleted.id)} deleted")


async def _find(rooms: KeptRooms, id: str) -> ResponseFacts:
    found = await rooms.responses.describe(_read(id))
    if found is None:
        raise NotFound(f"There is no response {id}.")
    return found


def _read(id: str) -> ResponseId:
    read = read_response_id(id)
    if read is None:
        raise NotFound(f"There is no response {id}: ids look like resp_0198….")
    return read


def _facts(each: ResponseFacts) -> dict[str, object]:
    facts = msgspec.structs.asdict(each)
    previous = None if each.previous is None else shown(each.previous)
    return {**facts, "id": shown(each.id), "previous": previous, "created_at": _time(each)}


def _time(each: ResponseFacts) -> str:
    return datetime.fromtimestamp(timestamp_of(each.id), UTC).strftime("%Y-%m-%d %H:%M:%S")


def _ask(
    context: typer.Context, state: Path, question: Callable[[KeptRooms], Awaitable[_Answer]]
) -> _Answer:
    config = invocation(context).load().config

    async def run() -> _Answer:
        async with opened(config, state) as store, kept_rooms(store, config, state) as rooms:
            return await question(rooms)

    return asyncio.run(run())
