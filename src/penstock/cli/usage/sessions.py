"""`penstock usage stability` and `penstock usage sessions`: how steady sessions are."""

from collections.abc import Mapping
from datetime import UTC
from typing import Annotated, Final

import typer

from penstock.cli.administration import run_operation
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import error_console, print_json, print_table
from penstock.cli.period_options import SinceOption, UntilOption
from penstock.cli.table import Cell, Column, Columns
from penstock.console.formats import NOTHING, dollars, milliseconds, percent, short
from penstock.console.incident_operations import (
    LIST_SESSIONS,
    SHOW_STABILITY,
    NamedSessions,
    NamedStability,
    SessionsAsked,
    StabilityAsked,
)
from penstock.wire.resources.session_list import SessionRow, StabilityRow

_LINE: Final = "▁▂▃▄▅▆▇█"
_LINE_POINTS: Final = 12
STABILITY_COLUMNS: Columns = (
    "workflow",
    *(Column(title, is_right=True) for title in ("turns", "stayed", "breaks")),
    *(Column(title, is_right=True) for title in ("expected", "hit")),
    *(Column(title, is_right=True) for title in ("p50", "p95")),
    *(Column(title, is_right=True, is_optional=True) for title in ("load", "drain", "lost")),
    *(Column(title, is_right=True, is_optional=True) for title in ("retried", "served", "same")),
    Column("hit by time", is_optional=True),
    Column("account", is_optional=True),
)
SESSION_COLUMNS: Columns = (
    "session",
    *(Column(title, is_right=True) for title in ("turns", "prompt", "slope", "hit")),
    *(Column(title, is_right=True) for title in ("moves", "breaks", "cost")),
    *(Column(title, is_optional=True) for title in ("last", "workflow", "account")),
)
AccountOption = Annotated[str | None, typer.Option(help="Only this account's, by name or id.")]
WorkflowOption = Annotated[str | None, typer.Option(help="Only of this workflow.")]
LimitOption = Annotated[int, typer.Option(help="How many, at most.", min=1, max=1000)]


def stability(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    since: SinceOption = None,
    until: UntilOption = None,
    account: AccountOption = None,
    workflow: WorkflowOption = None,
    limit: LimitOption = 100,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Show how steady sessions are, by workflow: stays, moves, cache breaks, hits, retries."""
    asked = StabilityAsked(
        since=since, until=until, account=account, workflow=workflow, limit=str(limit)
    )
    found = run_operation(context, state, SHOW_STABILITY, asked)
    if json:
        print_json(found.stability)
    else:
        print_stability(found)


def sessions(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    order: Annotated[
        str, typer.Option(help="What comes first: cost, slope, moves, breaks or last.")
    ] = "cost",
    since: SinceOption = None,
    until: UntilOption = None,
    account: AccountOption = None,
    workflow: WorkflowOption = None,
    limit: LimitOption = 100,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """List sessions of whole days: what they cost, how their prompts grow, how often they moved."""
    asked = SessionsAsked(
        since=since,
        until=until,
        account=account,
        workflow=workflow,
        order=order,
        limit=str(limit),
    )
    found = run_operation(context, state, LIST_SESSIONS, asked)
    if json:
        print_json(found.sessions)
    else:
        print_sessions(found)


def print_stability(found: NamedStability) -> None:
    """Print a row for each workflow."""
    answer = found.stability
    rows = [stability_cells(row, found.account_names) for row in answer.rows]
    print_table(STABILITY_COLUMNS, rows)
    _say_more(answer.has_more)


def print_sessions(found: NamedSessions) -> None:
    """Print a row for each session."""
    answer = found.sessions
    print_table(
        SESSION_COLUMNS, [session_cells(row, found.account_names) for row in answer.sessions]
    )
    _say_more(answer.has_more)


def stability_cells(row: StabilityRow, names: Mapping[str, str]) -> tuple[Cell, ...]:
    return (
        row.workflow or NOTHING,
        short(row.session_turns),
        percent(row.stayed),
        short(row.cache_breaks),
        percent(row.hit_expected),
        percent(row.hit_counted),
        milliseconds(row.first_token_p50_ms),
        milliseconds(row.first_token_p95_ms),
        *(short(count) for count in (row.moved_load, row.moved_drain, row.moved_lost)),
        short(row.retried),
        percent(row.retry_success),
        percent(row.retries_stayed),
        _line(row.hits),
        names.get(row.account, row.account),
    )


def session_cells(row: SessionRow, names: Mapping[str, str]) -> tuple[Cell, ...]:
    slope = row.prompt_growth_tokens
    return (
        row.session,
        short(row.turns),
        NOTHING if row.prompt_last is None else f"{row.prompt_last:,}",
        NOTHING if slope is None else f"{slope:+,.0f}",
        percent(row.hit_ratio),
        short(row.moves),
        short(row.cache_breaks),
        dollars(row.cost_nanousd),
        f"{row.last_at.astimezone(UTC):%m-%d %H:%M}",
        row.workflow or NOTHING,
        names.get(row.account, row.account),
    )


def _line(hits: list[float | None]) -> str:
    """Draw the latest points between 0 and 1; a dot where there was nothing."""
    return "".join(
        "·" if hit is None else _LINE[min(len(_LINE) - 1, int(hit * len(_LINE)))]
        for hit in hits[-_LINE_POINTS:]
    )


def _say_more(has_more: bool) -> None:
    if has_more:
        error_console().print("[dim]there are more: raise --limit[/]")
