"""`penstock migrate`: bring the database's tables to what this version needs."""

import asyncio
from typing import Annotated

import typer

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, print_json
from penstock.cli.postgres import find_dsn
from penstock.clock import SystemClock
from penstock.console.acts import DATABASE, log_around
from penstock.contracts.decision_book import DecisionBook
from penstock.records.decision import DecisionKind, DecisionVerdict, LoggedDecision
from penstock.store import Store, StoreSettings, pending
from penstock.store import migrate as apply
from penstock.store.runtime_role import grant_again, grant_runtime_role


def migrate(
    context: typer.Context,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 when something is missing.")
    ] = False,
    runtime_role: Annotated[
        str,
        typer.Option(help="A role of this Postgres, to be given what gateways and keepers need."),
    ] = "",
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Apply the migrations that the database lacks. Safe to run twice, and by several at once.

    A role that was given its rights once gets those of new tables by each later run.
    """
    if check and runtime_role:
        raise CommandFailed("--check changes nothing: leave out --runtime-role.", ExitCode.USAGE)
    dsn = find_dsn(invocation(context).load().config, state)
    names = asyncio.run(pending(dsn) if check else _migrate(dsn, runtime_role))
    if json:
        print_json({"pending" if check else "applied": names})
    else:
        for name in names:
            console().print(f"[yellow]missing[/] {name}" if check else f"[green]applied[/] {name}")
        if not names:
            console().print("The database is up to date.")
    if check and names:
        raise typer.Exit(ExitCode.FAILED)


async def _migrate(dsn: str, runtime_role: str) -> list[str]:
    names = await apply(dsn)
    if runtime_role:
        await _grant(dsn, runtime_role)
    if names:
        await grant_again(dsn)
    return names


async def _grant(dsn: str, role: str) -> None:
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        act = LoggedDecision(
            kind=DecisionKind.OPERATOR,
            verdict=DecisionVerdict.ALLOW,
            subjects=("grant_runtime_role", role),
        )
        book = DecisionBook(store, SystemClock())
        await log_around(book, DATABASE, act, lambda: grant_runtime_role(dsn, role))
    finally:
        await store.close()
