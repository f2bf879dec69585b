"""`penstock migrate`: bring the database's tables to what this version needs."""

import asyncio
from typing import Annotated

import typer

from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, print_json
from penstock.cli.postgres import find_dsn
from penstock.store import migrate as apply
from penstock.store import pending


def migrate(
    context: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 when something is missing.")
    ] = False,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Apply the migrations that the database lacks. Safe to run twice, and by several at once."""
    dsn = find_dsn(invocation(context).load().config, state)
    names = asyncio.run(pending(dsn) if check else apply(dsn))
    if json:
        print_json({"pending" if check else "applied": names})
    else:
        for name in names:
            console().print(f"[yellow]missing[/] {name}" if check else f"[green]applied[/] {name}")
        if not names:
            console().print("The database is up to date.")
    if check and names:
        raise typer.Exit(ExitCode.FAILED)
