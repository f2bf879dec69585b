"""The command `penstock usage diff`: what changed between two periods, and an alarm for scripts."""

from typing import Annotated

import typer

from penstock.cli.administration import run_operation
from penstock.cli.dollars import exact_usd, read_usd
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import print_error, print_json
from penstock.cli.usage.difference_table import print_difference
from penstock.clock import SystemClock
from penstock.console.usage_operations import SHOW_DIFFERENCE, DifferenceAsked, difference_query


def diff(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    since: Annotated[
        str | None,
        typer.Option(help="A date, an RFC 3339 time or an age (12h, 7d); 24 h before --until."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            help="Up to this time; never beyond the last full hour, which is the default."
        ),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            help="The time just `before`, the same time a `week` earlier, or when the other period"
            " begins."
        ),
    ] = "before",
    by: Annotated[
        str | None,
        typer.Option(help="A row for each `workflow` or `account`; for each pair if not given."),
    ] = None,
    account: Annotated[str | None, typer.Option(help="Only this account's, by name or id.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only of this workflow.")] = None,
    alarm_usd: Annotated[
        str | None,
        typer.Option(help="End with exit code 6 if the cost rose by more dollars than this."),
    ] = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Compare the cost of two periods, and split each change into its causes."""
    alarm = read_usd(alarm_usd)
    asked = DifferenceAsked(
        since=since, until=until, against=against, by=by, account=account, workflow=workflow
    )
    # Refused here already, without a database.
    difference_query(asked, SystemClock().now())
    found = run_operation(context, state, SHOW_DIFFERENCE, asked)
    if json:
        print_json(found.difference)
    else:
        print_difference(found.difference, found.account_names)
    total = found.difference.total
    if alarm is not None and total.change_nanousd > alarm:
        rose, limit = exact_usd(total.change_usd), exact_usd(str(alarm_usd))
        print_error(f"The cost rose by {rose}, more than {limit} (--alarm-usd).")
        raise typer.Exit(ExitCode.OVER_ALARM)
