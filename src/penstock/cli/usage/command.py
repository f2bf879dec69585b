"""The command `penstock usage`: its options, reports and export."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.administration import Administration, administer, run_operation
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, print_json
from penstock.cli.period_options import SinceOption, UntilOption
from penstock.cli.usage.difference import diff
from penstock.cli.usage.lines import print_session_csv, print_usage_csv
from penstock.cli.usage.sessions import sessions, stability
from penstock.cli.usage.tables import print_request, print_session, print_usage
from penstock.clock import SystemClock
from penstock.console.usage_operations import (
    LIST_CHARGES,
    SHOW_REQUEST,
    SHOW_SESSION,
    SHOW_USAGE,
    ChargesAsked,
    RequestNamed,
    SessionAsked,
    UsageAsked,
    session_query,
    usage_query,
)
from penstock.metering.reports.export_file import opened_file
from penstock.metering.reports.focus import focus_row
from penstock.metering.reports.usage_reports import check_period
from penstock.wire.resources.usage_query import ReportPeriod, read_parameters, read_period

app = typer.Typer(help="Show what was used and what it cost.", invoke_without_command=True)

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
    replica: Annotated[str | None, typer.Option(help="Only of this replica.")] = None,
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
    most = None if limit is None else str(limit)
    if session is not None and by is None and group_by is None:
        _refuse_filters(
            key=key,
            model=model,
            tier=tier,
            workflow=workflow,
            prompt_family=prompt_family,
            replica=replica,
        )
        turns = SessionAsked(session=session, account=account, since=since, until=until, limit=most)
        # Refused here already, without a database.
        session_query(turns, SystemClock().now())
        found = run_operation(context, state, SHOW_SESSION, turns)
        (print_json if json else print_session_csv if csv else print_session)(found)
        return
    asked = UsageAsked(
        since=since,
        until=until,
        by=by,
        group_by="account" if group_by is None else group_by,
        account=account,
        key=key,
        model=model,
        tier=tier,
        workflow=workflow,
        session=session,
        prompt_family=prompt_family,
        replica=replica,
        limit=most,
    )
    usage_query(asked, SystemClock().now())
    report = run_operation(context, state, SHOW_USAGE, asked)
    if json or csv:
        (print_json if json else print_usage_csv)(report.usage)
    else:
        print_usage(report.usage, report.account_names)


app.command()(diff)
app.command()(stability)
app.command()(sessions)


# `penstock explain` says more; this name works for one more release.
@app.command(hidden=True)
def request(
    context: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The request's id (x-request-id).")],
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Follow one request: each attempt, what it used, and how its charge was calculated."""
    answer = run_operation(context, state, SHOW_REQUEST, RequestNamed(id=id))
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
    settings = invocation(context).load().config.metering
    period = read_period(since, until, SystemClock().now())
    check_period(period.since, period.until, settings.report_days_max)
    count = administer(context, state, lambda desk: _export(desk, period, out))
    if json:
        print_json({"file": out, "rows": count, "since": period.since, "until": period.until})
    else:
        console().print(f"{out}: {count} rows", soft_wrap=True)


async def _export(desk: Administration, period: ReportPeriod, out: Path) -> int:
    """Write the charges to the file, page by page; return how many."""
    count, hour = 0, period.since
    with opened_file(out) as file:
        while hour < period.until:
            first: int | None = 0
            while first is not None:
                page = await desk.run(LIST_CHARGES, ChargesAsked(hour=hour, first=first))
                file.write([focus_row(each) for each in page.charges])
                count += len(page.charges)
                first = page.next
            hour += timedelta(hours=1)
    return count


def _refuse_filters(**filters: str | None) -> None:
    """Refuse filters that a session's turns do not have, as the report itself would."""
    given = [(name, text) for name, text in filters.items() if text is not None]
    read_parameters(given, ("since", "until", "limit", "account"))
