"""`penstock key`: creates, lists and revokes the keys of callers and operators."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple

import msgspec
import typer

from penstock.cli.account_names import find_account_if_given
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, error_console, print_json, print_table
from penstock.cli.postgres import opened
from penstock.cli.table import Column, Columns
from penstock.cli.usage.figures import NOTHING
from penstock.clock import SystemClock, timestamp_of
from penstock.metering.reports.usage_reports import UsageReports
from penstock.policy import KeyBook
from penstock.records.account import Key, Role

app = typer.Typer(help="Create, list and revoke keys.", no_args_is_help=True)

_LOOKED_BACK = timedelta(days=30)
_COLUMNS: Columns = (
    *("id", "name", "state", "made"),
    Column("last used", is_optional=True),
    *(Column(title, is_optional=True) for title in ("account", "role")),
)
AccountOption = Annotated[str | None, typer.Option("--account", help="The account's name or id.")]


class ShownKey(NamedTuple):
    """A key, and the hour in which it was used last, if that is known."""

    key: Key
    last_used_at: datetime | None

    @property
    def created_at(self) -> datetime:
        # A key's id begins with the time at which it was made.
        return datetime.fromtimestamp(timestamp_of(self.key.id), UTC)

    def plain(self) -> dict[str, object]:
        times = {"created_at": self.created_at, "last_used_at": self.last_used_at}
        return {**_plain(self.key), **times}

    def cells(self) -> tuple[str, ...]:
        key, used = self.key, self.last_used_at
        return (
            key.id,
            key.name,
            "revoked" if key.is_revoked else "active",
            f"{self.created_at:%Y-%m-%d}",
            NOTHING if used is None else f"{used.astimezone(UTC):%Y-%m-%d %Hh}",
            key.account.name if key.account else "",
            key.role,
        )


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
    """List the keys, oldest first, without their secrets.

    "Last used" is the hour of the last request, if that is within 30 days.
    """
    config = invocation(context).load().config

    async def run() -> list[ShownKey]:
        since = datetime.fromtimestamp(SystemClock().now(), UTC) - _LOOKED_BACK
        async with opened(config, state) as store:
            keys = await KeyBook(store).list(await find_account_if_given(store, account))
            used = await UsageReports(store, config.metering).keys_last_used(since)
        return [ShownKey(key, used.get(key.id)) for key in keys]

    shown = asyncio.run(run())
    if json:
        print_json([each.plain() for each in shown])
    else:
        print_table(_COLUMNS, [each.cells() for each in shown])


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
