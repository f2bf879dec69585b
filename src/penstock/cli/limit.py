"""`penstock limit`: limits accounts, keys, workflows and sessions."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

import typer

from penstock.admission import quantity
from penstock.cli.administration import run_operation
from penstock.cli.dollars import read_usd
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, print_json, print_table
from penstock.cli.table import Column, Columns
from penstock.console.limit_operations import (
    LIST_LEASE_HOLDERS,
    LIST_LIMITS,
    RELEASE_LEASES,
    REMOVE_LIMIT,
    SET_LIMITS,
    LeaseHolderNamed,
    LimitAmount,
    LimitNamed,
    LimitsAsked,
    NewLimits,
    ShownLimitState,
)
from penstock.console.operation import Nothing
from penstock.records.limit import Measure, Period, Scope

app = typer.Typer(help="Set, list and remove limits and budgets.", no_args_is_help=True)

_COLUMNS: Columns = (
    Column("id", is_right=True),
    *("account", "for", "limit", "per"),
    *(Column(title, is_right=True) for title in ("spent", "free")),
    Column("kind", is_optional=True),
    Column("leased", is_right=True, is_optional=True),
)
_Of = tuple[Measure, Period]


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
    asked = _wanted(account, scopes, amounts, is_hard=not warn)
    limits = run_operation(context, state, SET_LIMITS, asked).limits
    if json:
        print_json(limits)
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
    """List the limits and how they stand in the present window.

    Those of contracts hold for each account by itself, and are listed without --account.
    """
    found = run_operation(context, state, LIST_LIMITS, LimitsAsked(account=account))
    if json:
        print_json(found.limits)
        return
    print_table(_COLUMNS, [_row(each, found.account_names) for each in found.limits])


@app.command()
def remove(
    context: typer.Context,
    limit: Annotated[int, typer.Argument(metavar="ID", help="The limit's id.")],
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Remove a limit."""
    removed = run_operation(context, state, REMOVE_LIMIT, LimitNamed(limit=limit))
    if json:
        print_json(removed)
    else:
        console().print(f"limit {limit} [red]removed[/]")


@app.command()
def leases(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """List the gateway workers that hold leases."""
    holders = run_operation(context, state, LIST_LEASE_HOLDERS, Nothing()).holders
    if json:
        print_json(holders)
        return
    rows = [
        (each.id, str(each.leases), _time(each.expires_at), "lost" if each.is_expired else "")
        for each in holders
    ]
    print_table(("holder", "leases", "expires", "state"), rows)


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
    asked = LeaseHolderNamed(holder=holder, force=force)
    released = run_operation(context, state, RELEASE_LEASES, asked)
    if json:
        print_json(released)
    else:
        console().print(f"{released.released} leases released")


def _wanted(
    account: str,
    scopes: Mapping[Scope, str | None],
    amounts: Mapping[_Of, int | None],
    *,
    is_hard: bool,
) -> NewLimits:
    """Check the options, and return the limits that they want."""
    named = [(scope, value) for scope, value in scopes.items() if value is not None]
    given = [
        LimitAmount(measure, period, amount)
        for (measure, period), amount in amounts.items()
        if amount is not None
    ]
    if len(named) > 1:
        raise CommandFailed("Pass one of --key, --workflow and --session.", ExitCode.USAGE)
    if not given:
        raise CommandFailed(
            "Say how much: --requests-per-minute, --tokens-per-day, --usd-per-month ...",
            ExitCode.USAGE,
        )
    scope, value = named[0] if named else (Scope.ACCOUNT, "")
    return NewLimits(account=account, scope=scope, value=value, amounts=given, is_hard=is_hard)


def _row(state: ShownLimitState, names: Mapping[str, str]) -> tuple[str, ...]:
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
    account = names.get(limit.account, limit.account) or "each"
    if limit.contract and limit.scope is Scope.SESSION:
        whom += f" of {limit.contract}"
    return (str(limit.id), account, whom, limited, limit.period, spent, free, kind, leased)


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"
