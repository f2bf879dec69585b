"""The command `penstock usage`: its options, and reports read directly from the database."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, print_json
from penstock.cli.postgres import opened
from penstock.cli.usage.desk import UsageDesk
from penstock.cli.usage.lines import print_session_csv, print_usage_csv
from penstock.cli.usage.tables import print_request, print_session, print_usage
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.metering.reports.export import export_charges
from penstock.metering.reports.export_file import opened_file
from penstock.metering.reports.focus import focus_row
from penstock.policy import AccountBook
from penstock.wire.resources.usage_query import read_period, read_session_query, read_usage_query

app = typer.Typer(help="Show what was used and what it cost.", invoke_without_command=True)

Answer = TypeVar("Answer")
SinceOption = Annotated[
    str | None, typer.Option(help="A date or an RFC 3339 time; 24 h before --until if not given.")
]
UntilOption = Annotated[
    str | None, typer.Option(help="Up to this time, not including it; now if not given.")
]
CsvOption = Annotated[bool, typer.Option("--csv", help="Print CSV, for spreadsheets.")]


@app.callback()
def usage(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    by: Annotated[str | None, typer.Option(help="A row for each `hour` or `day`.")] = None,
    group_by: Annotated[
        str | None,
        typer.Option(
            help="A comma list of labels, `account` if not given; empty for one sum of all."
        ),
    ] = None,
    account: Annotated[str | None, typer.Option(help="Only this account's, by name or id.")] = None,
    key: Annotated[str | None, typer.Option(help="Only this key's.")] = None,
    model: Annotated[str | None, typer.Option(help="Only of this model.")] = None,
    tier: Annotated[str | None, typer.Option(help="Only of this tier.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only of this workflow.")] = None,
    session: Annotated[
        str | None,
        typer.Option(help="Only of this session: its turns, unless --by or --group-by is given."),
    ] = None,
    prompt_family: Annotated[str | None, typer.Option(help="Only of this prompt family.")] = None,
    limit: Annotated[int | None, typer.Option(help="How many rows or turns, at most.")] = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
    csv: CsvOption = False,
) -> None:
    """Show usage and cost by label and time; without options: of each account, for 24 hours."""
    if context.invoked_subcommand is not None:
        return
    if json and csv:
        raise CommandFailed("Pass --json or --csv, not both.", ExitCode.USAGE)
    said = {"since": since, "until": until, "by": by, "key": key}
    said |= {"model": model, "tier": tier, "workflow": workflow, "prompt_family": prompt_family}
    said["limit"] = None if limit is None else str(limit)
    asked = [(name, text) for name, text in said.items() if text is not None]
    config = invocation(context).load().config
    now = SystemClock().now()
    if session is not None and by is None and group_by is None:
        turns = read_session_query(asked, session, now, account=account or "")
        found = _ask(config, state, lambda desk: desk.session(turns))
        (print_json if json else print_session_csv if csv else print_session)(found)
        return
    asked.append(("group_by", "account" if group_by is None else group_by))
    asked += [("session", session)] if session is not None else []
    query = read_usage_query(asked, now)
    answer, names = _ask(config, state, lambda desk: desk.usage(query, account))
    if json or csv:
        (print_json if json else print_usage_csv)(answer)
    else:
        print_usage(answer, names)


@app.command()
def request(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The request's id (x-request-id).")],
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Follow one request: each attempt, what it used, and how its charge was calculated."""
    config = invocation(context).load().config
    answer = _ask(config, state, lambda desk: desk.reports.request(id))
    (print_json if json else print_request)(answer)


@app.command()
def export(
    context: typer.Context,
    *,
    out: Annotated[Path, typer.Option(help="The file to write; .parquet or .csv.")],
    since: SinceOption = None,
    until: UntilOption = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Write every charge of a period to a file, with the columns of FOCUS 1.2."""
    config = invocation(context).load().config
    period = read_period(since, until, SystemClock().now())

    async def run() -> int:
        async with opened(config, state) as store:
            names = {str(each.id): each.name for each in await AccountBook(store).list()}
            with opened_file(out) as file:
                return await export_charges(
                    store,
                    config.metering,
                    period,
                    names,
                    lambda charges: file.write([focus_row(each) for each in charges]),
                )

    count = asyncio.run(run())
    if json:
        print_json({"file": out, "rows": count, "since": period.since, "until": period.until})
    else:
        console().print(f"{out}: {count} rows", soft_wrap=True)


def _ask(config: Config, state: Path, question: Callable[[UsageDesk], Awaitable[Answer]]) -> Answer:
    async def run() -> Answer:
        async with opened(config, state) as store:
            return await question(UsageDesk(store, config.metering))

    return asyncio.run(run())
