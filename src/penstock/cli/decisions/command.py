"""`penstock decisions`: the commands."""

from datetime import UTC
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from penstock.cli.administration import administer, run_operation
from penstock.cli.decisions.verifying import Verified, read_heads, verify_log
from penstock.cli.exit_codes import ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, print_json, print_table
from penstock.cli.table import Cell, Column, Columns
from penstock.console.decision_operations import LIST_DECISIONS, SHOW_HEADS, DecisionsAsked
from penstock.console.formats import NOTHING
from penstock.console.operation import Nothing
from penstock.wire.resources.decisions import DecisionAnswer

app = typer.Typer(
    help="Show and verify what contracts decided and operators did.", invoke_without_command=True
)

_COLUMNS: Columns = (
    *("at", "kind", "verdict"),
    Column("about", is_prose=True),
    Column("contract", is_optional=True),
    Column("why", is_optional=True),
    Column("request", is_optional=True),
    Column("by", is_optional=True),
)
_COLOURS = {"deny": "red", "change": "yellow"}


@app.callback()
def decisions(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    request: Annotated[str | None, typer.Option(help="Only about this request, by its id.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only of this workflow.")] = None,
    contract: Annotated[
        str | None, typer.Option(help="Only of this contract: NAME, or NAME@VERSION.")
    ] = None,
    account: Annotated[str | None, typer.Option(help="Only this account's, by name or id.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Only of this kind, such as tool_call or operator.")
    ] = None,
    verdict: Annotated[str | None, typer.Option(help="Only allow, change or deny.")] = None,
    actor: Annotated[
        str | None, typer.Option(help="Only acts of this operator's key, or of `database`.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="A date, an RFC 3339 time or an age (12h, 7d).")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Up to this time, not including it.")] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=5000)] = 100,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Show the log of decisions, newest first; of the last 24 hours if nothing says when."""
    if context.invoked_subcommand is not None:
        return
    asked = DecisionsAsked(
        request=request,
        workflow=workflow,
        contract=contract,
        account=account,
        kind=kind,
        verdict=verdict,
        actor=actor,
        since=since,
        until=until,
        limit=str(limit),
    )
    found = run_operation(context, state, LIST_DECISIONS, asked).data
    if json:
        print_json(found)
        return
    print_table(_COLUMNS, [_cells(each) for each in found])


@app.command()
def verify(
    context: typer.Context,
    heads: Annotated[
        Path | None,
        typer.Option(help="Heads that are held outside: one JSON object in each line."),
    ] = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Compute every hash of the log again; exit 1 when a row was changed, removed or moved."""
    outside = read_heads(heads)
    verified = administer(context, state, lambda desk: verify_log(desk, outside))
    if json:
        print_json(verified)
    else:
        _print_verified(verified)
    if verified.faults:
        raise typer.Exit(ExitCode.FAILED)


@app.command(name="heads")
def show_heads(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Show the last row of each chain; keep the JSON elsewhere, to verify the log by."""
    found = run_operation(context, state, SHOW_HEADS, Nothing())
    if json:
        print_json(found)
        return
    columns: Columns = ("keep", "holder", Column("row", is_right=True), "hash")
    print_table(
        columns,
        [(head.keep, head.holder, str(head.sequence), head.hash[:16]) for head in found.heads],
    )


def _print_verified(verified: Verified) -> None:
    out = console()
    for fault in verified.faults:
        out.print(
            f"[red]{fault.keep} chain of {fault.holder}, row {fault.sequence}:[/] {fault.problem}",
            soft_wrap=True,
        )
    held = f", {verified.heads} heads held outside" if verified.heads else ""
    if verified.heads_dropped:
        held += f" ({verified.heads_dropped} of rows that retention has dropped)"
    verdict = f"{len(verified.faults)} faults" if verified.faults else "no fault"
    out.print(f"{verified.rows} rows in {verified.chains} chains{held}: {verdict}", soft_wrap=True)


def _cells(decision: DecisionAnswer) -> tuple[Cell, ...]:
    verdict = Text(decision.verdict, style=_COLOURS.get(decision.verdict, ""))
    if decision.is_observed:
        verdict.append(", observed", style="dim")
    facts = ", ".join(f"{name}={value}" for name, value in decision.facts.items())
    return (
        f"{decision.at.astimezone(UTC):%m-%d %H:%M:%S}",
        decision.kind,
        verdict,
        " ".join(filter(None, (", ".join(decision.subjects), facts))) or NOTHING,
        decision.contract or NOTHING,
        decision.reason or NOTHING,
        decision.request or NOTHING,
        decision.actor or NOTHING,
    )
