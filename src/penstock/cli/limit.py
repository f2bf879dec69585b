"""`penstock limit`: limits accounts, keys, workflows and sessions, directly in the database."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from penstock.admission import (
    LimitBook,
    LimitState,
    is_alive,
    list_holders,
    quantity,
    release_holder,
)
from penstock.cli.account_names import account_names, find_account, find_account_if_given
from penstock.cli.dollars import read_usd
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, print_json, print_table
from penstock.cli.postgres import opened
from penstock.cli.table import Column, Columns
from penstock.config import Config
from penstock.records.account import AccountId
from penstock.records.limit import Limit, Measure, Period, Scope

app = typer.Typer(help="Set, list and remove limits and budgets.", no_args_is_help=True)

_COLUMNS: Columns = (
    Column("id", is_right=True),
    *("account", "for", "limit", "per"),
    *(Column(title, is_right=True) for title in ("spent", "free")),
    Column("kind", is_optional=True),
    Column("leased", is_right=True, is_optional=True),
)
_Of = tuple[Measure, Period]
_MadeFor = Callable[[AccountId], list[Limit]]


@app.command(name="set")
def set_(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    account: Annotated[str, typer.Option(help="The account's name or id.")],
    key: Annotated[str | None, typer.Option(help="Only this key; * is each by itself.")] = None,
    workflow: Annotated[
        str | None, typer.Option(help="Only this workflow; * is each by itself.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(help="Only this session; * is each by itself.")
    ] = None,
    requests_per_minute: Annotated[
        int | None, typer.Option(metavar="N", help="Requests in a minute.")
    ] = None,
    requests_per_day: Annotated[
        int | None, typer.Option(metavar="N", help="Requests in a day.")
    ] = None,
    requests_per_month: Annotated[
        int | None, typer.Option(metavar="N", help="Requests in a month.")
    ] = None,
    tokens_per_minute: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of prompts and answers in a minute.")
    ] = None,
    tokens_per_day: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of prompts and answers in a day.")
    ] = None,
    tokens_per_month: Annotated[
        int | None, typer.Option(metavar="N", help="Tokens of prompts and answers in a month.")
    ] = None,
    usd_per_day: Annotated[
        str | None, typer.Option(metavar="USD", help="Dollars in a day, such as 12.50.")
    ] = None,
    usd_per_month: Annotated[
        str | None, typer.Option(metavar="USD", help="Dollars in a month, such as 250.")
    ] = None,
    warn: Annotated[bool, typer.Option("--warn", help="Only warn, refuse nothing.")] = False,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Set one limit or several on an account, a key, a workflow or a session.

    A limit that is there on the same gets the new amount.
    """
    amounts: dict[_Of, int | None] = {
        (Measure.REQUESTS, Period.MINUTE): requests_per_minute,
        (Measure.REQUESTS, Period.DAY): requests_per_day,
        (Measure.REQUESTS, Period.MONTH): requests_per_month,
        (Measure.TOKENS, Period.MINUTE): tokens_per_minute,
        (Measure.TOKENS, Period.DAY): tokens_per_day,
        (Measure.TOKENS, Period.MONTH): tokens_per_month,
        (Measure.NANOUSD, Period.DAY): read_usd(usd_per_day),
        (Measure.NANOUSD, Period.MONTH): read_usd(usd_per_month),
    }
    scopes = {Scope.KEY: key, Scope.WORKFLOW: workflow, Scope.SESSION: session}
    wanted = _wanted(scopes, amounts, is_hard=not warn)
    config = invocation(context).load().config
    limits = asyncio.run(_create(config, state, account, wanted))
    if json:
        print_json([_plain(limit) for limit in limits])
        return
    for limit in limits:
        console().print(
            f"limit {limit.id}: {quantity(limit.amount, limit.measure)} per {limit.period}"
        )


@app.command(name="list")
def list_(
    context: typer.Context,
    account: Annotated[str | None, typer.Option(help="Only this account's, by name or id.")] = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """List the limits and how they stand in the present window."""
    config = invocation(context).load().config

    async def run() -> tuple[tuple[LimitState, ...], Mapping[str, str]]:
        async with opened(config, state) as store:
            owner = await find_account_if_given(store, account)
            states = await LimitBook(store, config.admission).list(owner)
            return states, await account_names(store)

    states, names = asyncio.run(run())
    if json:
        print_json([_plain_state(each) for each in states])
        return
    print_table(_COLUMNS, [_row(each, names) for each in states])


@app.command()
def remove(
    context: typer.Context,
    limit: Annotated[int, typer.Argument(metavar="ID", help="The limit's id.")],
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Remove a limit."""
    config = invocation(context).load().config

    async def run() -> None:
        async with opened(config, state) as store:
            await LimitBook(store, config.admission).remove(limit)

    asyncio.run(run())
    if json:
        print_json({"id": limit, "is_removed": True})
    else:
        console().print(f"limit {limit} [red]removed[/]")


@app.command()
def leases(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """List the gateway workers that hold leases."""
    config = invocation(context).load().config

    async def run() -> None:
        async with opened(config, state) as store:
            holders = await list_holders(store)
        if json:
            print_json(holders)
            return
        rows = [
            (each.id, str(each.leases), _time(each.expires_at), "lost" if each.is_expired else "")
            for each in holders
        ]
        print_table(("holder", "leases", "expires", "state"), rows)

    asyncio.run(run())


@app.command()
def release(
    context: typer.Context,
    holder: Annotated[UUID, typer.Option(help="A worker that is gone, as `leases` shows it.")],
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Even if it is not lost: it may pass limits then.")
    ] = False,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Free what a lost worker held. What it used and nobody has booked is then not counted."""
    config = invocation(context).load().config

    async def run() -> int:
        async with opened(config, state) as store, store.transaction() as transaction:
            if not force and await is_alive(transaction, str(holder)):
                raise CommandFailed(
                    f"Holder {holder} is not lost: it renewed its leases and goes on using them,"
                    " while others would be given the same. If you are sure, pass --force."
                )
            return await release_holder(transaction, str(holder))

    count = asyncio.run(run())
    if not count:
        raise CommandFailed(f"There is no holder {holder} with leases.", ExitCode.NOT_FOUND)
    if json:
        print_json({"holder": str(holder), "released": count})
    else:
        console().print(f"{count} leases released")


def _wanted(
    scopes: Mapping[Scope, str | None], amounts: Mapping[_Of, int | None], *, is_hard: bool
) -> _MadeFor:
    """Check the options, and return what makes their limits for an account."""
    named = [(scope, value) for scope, value in scopes.items() if value is not None]
    given = [(of, amount) for of, amount in amounts.items() if amount is not None]
    if len(named) > 1:
        raise CommandFailed("Pass one of --key, --workflow and --session.", ExitCode.USAGE)
    if not given:
        raise CommandFailed(
            "Say how much: --requests-per-minute, --tokens-per-day, --usd-per-month ...",
            ExitCode.USAGE,
        )
    scope, value = named[0] if named else (Scope.ACCOUNT, "")
    return lambda account: [
        Limit(0, account, scope, value, measure, period, amount, is_hard)
        for (measure, period), amount in given
    ]


async def _create(config: Config, state: Path, account: str, wanted: _MadeFor) -> list[Limit]:
    async with opened(config, state) as store:
        book = LimitBook(store, config.admission)
        return [await book.create(each) for each in wanted(await find_account(store, account))]


def _plain(limit: Limit) -> dict[str, object]:
    return {
        "id": limit.id, "account": limit.account, "scope": limit.scope, "value": limit.value,
        "measure": limit.measure, "period": limit.period, "amount": limit.amount,
        "is_hard": limit.is_hard,
    }  # fmt: skip


def _plain_state(state: LimitState) -> dict[str, object]:
    return {
        "limit": _plain(state.limit), "window_start": state.window_start, "value": state.value,
        "spent": state.spent, "leased": state.leased, "free": state.free,
    }  # fmt: skip


def _row(state: LimitState, names: Mapping[str, str]) -> tuple[str, ...]:
    limit = state.limit
    whom = limit.scope if limit.scope is Scope.ACCOUNT else f"{limit.scope} {limit.value}"
    if limit.value != state.value:
        whom += f" (furthest: {state.value or 'none'})"
    limited = quantity(limit.amount, limit.measure)
    # The limit's column has the unit.
    spent, leased, free = (
        quantity(each, limit.measure).split()[0] for each in (state.spent, state.leased, state.free)
    )
    kind = "hard" if limit.is_hard else "warns"
    account = names.get(limit.account, limit.account)
    return (str(limit.id), account, whom, limited, limit.period, spent, free, kind, leased)


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"
