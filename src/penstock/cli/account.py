"""`penstock account`: creates, lists and changes accounts."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from penstock.cli.administration import run_operation
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, print_json, print_table
from penstock.cli.table import Column, Columns
from penstock.console.account_operations import (
    CHANGE_ACCOUNT,
    CREATE_ACCOUNT,
    FORGET_ACCOUNT,
    LIST_ACCOUNTS,
    AccountChange,
    AccountNamed,
    NewAccount,
)
from penstock.console.operation import Nothing
from penstock.policy.accounts import FLEX_WEIGHT_MAX
from penstock.records.account import Account, Affinity, OnOutage, Storage

app = typer.Typer(help="Create, list, change and block accounts.", no_args_is_help=True)

_COLUMNS: Columns = (
    *("id", "name", "state"),
    Column("on outage", is_optional=True),
    Column("affinity", is_optional=True),
    Column("flex weight", is_right=True, is_optional=True),
)
AccountName = Annotated[
    str,
    typer.Argument(metavar="ACCOUNT", help="The account's name or id."),
]
_ON_OUTAGE = typer.Option(
    help="When its leases are used up and Postgres is away: refuse, or continue."
)
_AFFINITY = typer.Option(
    help="A session stays with its replica among near equals, or until the replica is gone: strict."
)
_FLEX_WEIGHT = typer.Option(
    min=1, max=FLEX_WEIGHT_MAX, help="Its share in the fair order of jobs, beside other accounts'."
)
_USAGE_COST = typer.Option(
    "--usage-cost/--no-usage-cost",
    help="Put the cost of each answer, in dollars, into its `usage` as `cost`.",
)
_STORAGE = typer.Option(
    help="Store its responses as the cell and each request say; or never, whatever they say."
)


@app.command()
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="What people call it.")],
    id: Annotated[
        str | None, typer.Option(help="32 characters of 0-9 and a-f; made up if not given.")
    ] = None,
    on_outage: Annotated[OnOutage, _ON_OUTAGE] = OnOutage.CONTINUE,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Create an account."""
    asked = NewAccount(name=name, id=id, on_outage=on_outage)
    _show(run_operation(context, state, CREATE_ACCOUNT, asked), json)


@app.command(name="list")
def list_(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """List the accounts, oldest first."""
    accounts = run_operation(context, state, LIST_ACCOUNTS, Nothing()).accounts
    if json:
        print_json(accounts)
        return
    rows = [
        (
            each.id,
            each.name,
            "blocked" if each.is_blocked else "active",
            each.on_outage,
            each.affinity,
            str(each.flex_weight),
        )
        for each in accounts
    ]
    print_table(_COLUMNS, rows)


@app.command(name="set")
def set_(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    account: AccountName,
    *,
    on_outage: Annotated[OnOutage | None, _ON_OUTAGE] = None,
    affinity: Annotated[Affinity | None, _AFFINITY] = None,
    flex_weight: Annotated[int | None, _FLEX_WEIGHT] = None,
    usage_cost: Annotated[bool | None, _USAGE_COST] = None,
    storage: Annotated[Storage | None, _STORAGE] = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Change an account. Every gateway applies it within 5 s."""
    if (on_outage, affinity, flex_weight, usage_cost, storage) == (None,) * 5:
        raise CommandFailed(
            "Say what to change: --on-outage, --affinity, --flex-weight, --usage-cost or"
            " --storage.",
            ExitCode.USAGE,
        )
    asked = AccountChange(
        account=account,
        on_outage=on_outage,
        affinity=affinity,
        flex_weight=flex_weight,
        has_usage_cost=usage_cost,
        storage=storage,
    )
    _show(run_operation(context, state, CHANGE_ACCOUNT, asked), json)


@app.command()
def block(
    context: typer.Context,
    account: AccountName,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Stop a whole account. Every gateway applies it within 5 s."""
    _set_blocked(context, account, state, is_blocked=True, json=json)


@app.command()
def unblock(
    context: typer.Context,
    account: AccountName,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Let a blocked account go on."""
    _set_blocked(context, account, state, is_blocked=False, json=json)


@app.command()
def forget(
    context: typer.Context,
    account: AccountName,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do it: nothing brings it back.")] = False,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Block an account, and delete all that it sent and got. What it used and paid stays."""
    if not yes:
        raise CommandFailed(
            "This deletes the account's responses, conversations, jobs and files for good:"
            " pass --yes.",
            ExitCode.USAGE,
        )
    asked = AccountNamed(account=account)
    _show(run_operation(context, state, FORGET_ACCOUNT, asked), json)


def _set_blocked(
    context: typer.Context, account: str, state: Path, *, is_blocked: bool, json: bool
) -> None:
    asked = AccountChange(account=account, is_blocked=is_blocked)
    _show(run_operation(context, state, CHANGE_ACCOUNT, asked), json)


def _show(account: Account, json: bool) -> None:
    if json:
        print_json(account)
        return
    state = "[red]blocked[/]" if account.is_blocked else "[green]active[/]"
    console().print(f"account {escape(account.name)} ({account.id}) {state}", soft_wrap=True)
