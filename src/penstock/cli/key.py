"""`penstock key`: creates, lists and revokes the keys of callers and operators."""

import asyncio
from typing import Annotated

import msgspec
import typer

from penstock.cli.account_names import find_account_if_given
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, error_console, print_json, print_table
from penstock.cli.postgres import opened
from penstock.cli.table import Column
from penstock.policy import KeyBook
from penstock.records.account import Key, Role

app = typer.Typer(help="Create, list and revoke keys.", no_args_is_help=True)

AccountOption = Annotated[str | None, typer.Option("--account", help="The account's name or id.")]


@app.command()
def create(
    context: typer.Context,
    account: AccountOption = None,
    operator: Annotated[
        bool, typer.Option("--operator", help="A key that administers and may not infer.")
    ] = False,
    name: Annotated[str, typer.Option(help="What people call it.")] = "key",
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Create a key and show its secret, once: runtime for --account, or --operator."""
    if (account is None) is not operator:
        raise CommandFailed(
            "Pass --account NAME for a key that infers, or --operator for one that administers.",
            ExitCode.USAGE,
        )
    config = invocation(context).load().config
    role = Role.OPERATOR if operator else Role.RUNTIME

    async def run() -> tuple[Key, str]:
        async with opened(config, state) as store:
            owner = await find_account_if_given(store, account)
            return await KeyBook(store).create(role, owner, name)

    key, secret = asyncio.run(run())
    if json:
        print_json({**_plain(key), "secret": secret})
        return
    console().print(secret, soft_wrap=True)
    error_console().print(f"[dim]key {key.id}; its secret is shown this once and kept nowhere[/]")


@app.command(name="list")
def list_(
    context: typer.Context,
    account: AccountOption = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """List the keys, oldest first, without their secrets."""
    config = invocation(context).load().config

    async def run() -> tuple[Key, ...]:
        async with opened(config, state) as store:
            return await KeyBook(store).list(await find_account_if_given(store, account))

    keys = asyncio.run(run())
    if json:
        print_json([_plain(key) for key in keys])
        return
    rows = [
        (
            key.id,
            key.name,
            key.role,
            "revoked" if key.is_revoked else "active",
            key.account.name if key.account else "",
        )
        for key in keys
    ]
    print_table(("id", "name", "role", "state", Column("account", is_optional=True)), rows)


@app.command()
def revoke(
    context: typer.Context,
    key: Annotated[str, typer.Argument(metavar="ID", help="The key's id.")],
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """End a key for good. Every gateway applies it within 5 s."""
    config = invocation(context).load().config

    async def run() -> None:
        async with opened(config, state) as store:
            await KeyBook(store).revoke(key)

    asyncio.run(run())
    if json:
        print_json({"id": key, "is_revoked": True})
    else:
        console().print(f"key {key} [red]revoked[/]")


def _plain(key: Key) -> dict[str, object]:
    fields = msgspec.structs.asdict(key)
    return {**fields, "account": key.account.id if key.account else None}
