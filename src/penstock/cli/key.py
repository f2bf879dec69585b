"""`penstock key`: creates, lists and revokes the keys of callers, operators and auditors."""

from datetime import UTC
from typing import Annotated

import typer

from penstock.cli.administration import run_operation
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, error_console, print_json, print_table
from penstock.cli.table import Column, Columns
from penstock.console.formats import NOTHING
from penstock.console.key_operations import (
    CREATE_KEY,
    LIST_KEYS,
    REVOKE_KEY,
    KeyNamed,
    KeysAsked,
    NewKey,
    ShownKey,
)
from penstock.records.account import Role

app = typer.Typer(help="Create, list and revoke keys.", no_args_is_help=True)

_COLUMNS: Columns = (
    *("id", "name", "state", "made"),
    Column("last used", is_optional=True),
    *(Column(title, is_optional=True) for title in ("account", "role", "workflow")),
)
AccountOption = Annotated[str | None, typer.Option("--account", help="The account's name or id.")]


@app.command()
def create(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    account: AccountOption = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="A key that administers and may not infer.")
    ] = False,
    auditor: Annotated[
        bool, typer.Option("--auditor", help="A key that reads as an operator's, changes nothing.")
    ] = False,
    name: Annotated[str, typer.Option(help="What people call it.")] = "key",
    workflow: Annotated[
        str, typer.Option(help="The only workflow that its requests may belong to.")
    ] = "",
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Create a key and show its secret, once: for --account, --operator or --auditor."""
    if [account is not None, operator, auditor].count(True) != 1:
        raise CommandFailed(
            "Pass --account NAME for a key that infers, --operator for one that administers, or"
            " --auditor for one that reads.",
            ExitCode.USAGE,
        )
    role = Role.OPERATOR if operator else Role.AUDITOR if auditor else Role.RUNTIME
    asked = NewKey(role=role, account=account, name=name, workflow=workflow)
    created = run_operation(context, state, CREATE_KEY, asked)
    key = created.key
    if json:
        print_json({**_plain(key), "secret": created.secret})
        return
    console().print(created.secret, soft_wrap=True)
    error_console().print(f"[dim]key {key.id}; its secret is shown this once and kept nowhere[/]")


@app.command(name="list")
def list_(
    context: typer.Context,
    account: AccountOption = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """List the keys, oldest first, without their secrets.

    "Last used" is the hour of the last request, if that is within 30 days.
    """
    keys = run_operation(context, state, LIST_KEYS, KeysAsked(account=account)).keys
    if json:
        times = ("created_at", "last_used_at")
        print_json(
            [{**_plain(key), **{name: getattr(key, name) for name in times}} for key in keys]
        )
    else:
        print_table(_COLUMNS, [_cells(key) for key in keys])


@app.command()
def revoke(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")],
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """End a key for good. Every gateway applies it within 5 s."""
    revoked = run_operation(context, state, REVOKE_KEY, KeyNamed(key=key))
    if json:
        print_json(revoked)
    else:
        console().print(f"key {revoked.id} [red]revoked[/]")


def _plain(key: ShownKey) -> dict[str, object]:
    names = ("id", "role", "account", "name", "is_revoked", "workflow")
    return {name: getattr(key, name) for name in names}


def _cells(key: ShownKey) -> tuple[str, ...]:
    used = key.last_used_at
    return (
        key.id,
        key.name,
        "revoked" if key.is_revoked else "active",
        f"{key.created_at:%Y-%m-%d}",
        NOTHING if used is None else f"{used.astimezone(UTC):%Y-%m-%d %Hh}",
        key.account_name or "",
        key.role,
        key.workflow,
    )
