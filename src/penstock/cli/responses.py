"""`penstock responses`: lists, shows and deletes stored responses, never their content."""

from typing import Annotated

import msgspec
import typer

from penstock.cli.administration import run_operation
from penstock.cli.job_facts import print_facts
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import error_console, print_json, print_table
from penstock.cli.table import Column, Columns
from penstock.console.response_operations import (
    DELETE_RESPONSE,
    LIST_RESPONSES,
    SHOW_RESPONSE,
    ResponseNamed,
    ResponsesAsked,
    ShownResponse,
)

app = typer.Typer(help="List, show and delete stored responses.", no_args_is_help=True)

_COLUMNS: Columns = (
    *("id", "status", "model"),
    Column("bytes", is_right=True),
    Column("stored", is_optional=True),
    Column("account", is_optional=True),
)
_Id = Annotated[str, typer.Argument(metavar="ID", help="The id that its caller got: resp_….")]


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
    asked = ResponsesAsked(account=account, after=after, limit=limit)
    found = run_operation(context, state, LIST_RESPONSES, asked)
    page, names = found.responses, found.account_names
    if json:
        print_json([_facts(each) for each in page])
        return
    rows = [
        (
            each.id,
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
        error_console().print(f"There may be more: --after {page[-1].id}")


@app.command()
def show(
    context: typer.Context, id: _Id, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Show what is known of one response, without its content."""
    found = run_operation(context, state, SHOW_RESPONSE, ResponseNamed(id=id))
    (print_json if json else print_facts)(_facts(found))


@app.command()
def delete(
    context: typer.Context, id: _Id, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Delete one response, with its content. What goes on from it can no longer be continued."""
    deleted = run_operation(context, state, DELETE_RESPONSE, ResponseNamed(id=id))
    if json:
        print_json(deleted)
    else:
        typer.echo(f"{deleted.id} deleted")


def _facts(each: ShownResponse) -> dict[str, object]:
    return {**msgspec.structs.asdict(each), "created_at": _time(each)}


def _time(each: ShownResponse) -> str:
    return f"{each.created_at:%Y-%m-%d %H:%M:%S}"
