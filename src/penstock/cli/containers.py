"""`penstock containers`: lists and stops containers, and shows what they cost."""

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated

import msgspec
import typer

from penstock.cli.administration import run_operation
from penstock.cli.dollars import exact_usd
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import error_console, print_json, print_table
from penstock.cli.table import Column, Columns
from penstock.console.container_operations import (
    LIST_CONTAINERS,
    SHOW_CONTAINER_USAGE,
    STOP_CONTAINER,
    ContainerNamed,
    ContainersAsked,
    ContainerUsageAsked,
    ShownContainer,
)

app = typer.Typer(help="List and stop containers, and see their cost.", no_args_is_help=True)

_COLUMNS: Columns = (
    *("id", "status", "host"),
    Column("memory", is_right=True),
    Column("last active", is_optional=True),
    Column("isolation", is_optional=True),
    Column("account", is_optional=True),
)
_USED: Columns = (
    "account",
    *(Column(name, is_right=True) for name in ("containers", "hours", "running code s", "cost")),
)
_Id = Annotated[str, typer.Argument(metavar="ID", help="The id that its caller got: cntr_….")]
_Account = Annotated[str | None, typer.Option(help="Only this account's, by name or id.")]


@app.command(name="list")
def list_(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    account: _Account = None,
    ended: Annotated[bool, typer.Option("--ended", help="Those that ended of late too.")] = False,
    after: Annotated[str | None, typer.Option(help="Only older than this container.")] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=1000)] = 20,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """List containers that run, newest first."""
    asked = ContainersAsked(account=account, ended=ended, after=after, limit=limit)
    found = run_operation(context, state, LIST_CONTAINERS, asked)
    page, names = found.containers, found.account_names
    if json:
        print_json([_facts(each) for each in page])
        return
    rows = [
        (
            *(each.id, each.status, each.host, f"{each.memory_mb} MiB"),
            *(_time(each.last_active_at), each.isolation),
            names.get(each.account, each.account),
        )
        for each in page
    ]
    print_table(_COLUMNS, rows)
    if len(page) == limit:
        error_console().print(f"There may be more: --after {page[-1].id}")


@app.command()
def stop(
    context: typer.Context, id: _Id, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Stop one container: its code ends at once, and copies of its files stay for a while."""
    stopped = run_operation(context, state, STOP_CONTAINER, ContainerNamed(id=id))
    if json:
        print_json(stopped)
    else:
        typer.echo(f"{stopped.id} stopped")


@app.command()
def usage(
    context: typer.Context,
    *,
    since: Annotated[
        str | None, typer.Option(help="The first day (UTC); today if not given.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Up to this day, not including it.")] = None,
    account: _Account = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Show what containers used and cost, by account. `penstock usage` counts tokens only."""
    asked = ContainerUsageAsked(since=_day(since), until=_day(until), account=account)
    found = run_operation(context, state, SHOW_CONTAINER_USAGE, asked)
    if json:
        print_json(found)
        return
    rows = [
        (
            found.account_names.get(each.account, each.account),
            str(each.containers),
            f"{each.seconds / 3600:.2f}",
            f"{each.exec_seconds:.1f}",
            exact_usd(Decimal(each.charge_nanousd).scaleb(-9)),
        )
        for each in found.usage
    ]
    print_table(_USED, rows)


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        raise CommandFailed(f"{text} is no day: write 2026-11-18.", ExitCode.USAGE) from None


def _facts(each: ShownContainer) -> dict[str, object]:
    times = {name: _time(getattr(each, name)) for name in ("created_at", "last_active_at")}
    return {**msgspec.structs.asdict(each), **times}


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"
