"""`penstock requests`: lists the slowest, dearest, failed or latest requests, and follows them."""

import asyncio
import itertools
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer
from rich.text import Text

from penstock.cli.administration import Administration, administer, run_operation
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, error_console, print_json, print_table
from penstock.cli.table import Cell, Column, Columns
from penstock.clock import SystemClock
from penstock.console.formats import NOTHING, dollars, last_part, milliseconds, percent, short
from penstock.console.incident_operations import LIST_REQUESTS, NamedRequests, RequestsAsked
from penstock.metering.reports.rows import ratio
from penstock.wire.resources.request_list import RequestOrder, RequestRow, RequestsAnswer

_FOLLOW_SECONDS: Final = 2.0
# Each look reads the last ten seconds again, in pages of so many rows.
_FOLLOWED_ROWS: Final = 1000
# Those of earlier looks that may come again.
_REMEMBERED: Final = 50_000
REQUEST_COLUMNS: Columns = (
    *("asked", "request"),
    Column("why", is_prose=True),
    *(Column(title, is_right=True) for title in ("wait", "cost")),
    Column("workflow", is_optional=True),
    *(Column(title, is_right=True, is_optional=True) for title in ("prompt", "cached", "output")),
    *(Column(title, is_optional=True) for title in ("replica", "session", "account", "model")),
)
_COLOURS: Final = {"failed": "red", "interrupted": "red", "client_left": "yellow"}


def requests(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    slow: Annotated[
        bool, typer.Option("--slow", help="Those whose first token took longest first.")
    ] = False,
    dear: Annotated[bool, typer.Option("--dear", help="The dearest first.")] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Only those that failed.")] = False,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print requests as they end, until Ctrl-C.")
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(help="A date, an RFC 3339 time or an age (12h, 7d); 1 h before --until."),
    ] = None,
    until: Annotated[str | None, typer.Option(help="Up to this time, not including it.")] = None,
    account: Annotated[str | None, typer.Option(help="Only this account's, by name or id.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Only of this workflow.")] = None,
    model: Annotated[str | None, typer.Option(help="Only of this model, by its id.")] = None,
    session: Annotated[str | None, typer.Option(help="Only of this session.")] = None,
    replica: Annotated[str | None, typer.Option(help="Only of this replica.")] = None,
    caller_request: Annotated[
        str | None, typer.Option(help="Only with this id of the caller's own; of the last day.")
    ] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=1000)] = 50,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """List requests: the latest, or the slow, dear or failed ones; with --follow as they end."""
    if (slow + dear + follow) > 1:
        raise CommandFailed("Pass only one of --slow, --dear and --follow.", ExitCode.USAGE)
    order = RequestOrder.SLOW if slow else RequestOrder.DEAR if dear else RequestOrder.LAST
    asked = RequestsAsked(
        since=since,
        until=until,
        account=account,
        workflow=workflow,
        model=model,
        session=session,
        replica=replica,
        caller_request=caller_request,
        order=RequestOrder.DRAINED if follow else order,
        outcome="failed" if failed else None,
        limit=str(_FOLLOWED_ROWS if follow else limit),
    )
    if follow:
        administer(context, state, lambda desk: _follow(desk, asked, json=json))
        return
    found = run_operation(context, state, LIST_REQUESTS, asked)
    if json:
        print_json(found.requests)
        return
    print_requests(found)


def print_requests(found: NamedRequests) -> None:
    """Print a table of requests."""
    answer = found.requests
    print_table(
        REQUEST_COLUMNS, [request_cells(row, found.account_names) for row in answer.requests]
    )
    if answer.has_more:
        error_console().print("[dim]there are more: raise --limit, or shorten the period[/]")


async def _follow(desk: Administration, asked: RequestsAsked, *, json: bool) -> None:
    """Print requests as they come into the ledger, until Ctrl-C."""
    since = datetime.fromtimestamp(SystemClock().now(), UTC).isoformat()
    seen: dict[tuple[str, int], None] = {}
    asked = msgspec.structs.replace(asked, drained_after=asked.since or since)
    while True:
        found = await desk.run(LIST_REQUESTS, asked)
        fresh = [row for row in found.requests.requests if (row.request, row.attempt) not in seen]
        for row in fresh:
            seen[row.request, row.attempt] = None
            if json:
                print_json(row)
            else:
                console().print(_line(row, found.account_names), soft_wrap=True)
        for old in list(itertools.islice(seen, max(0, len(seen) - _REMEMBERED))):
            del seen[old]
        asked = _next_look(asked, found.requests)
        if not found.requests.has_more:
            await asyncio.sleep(_FOLLOW_SECONDS)


def _next_look(asked: RequestsAsked, answer: RequestsAnswer) -> RequestsAsked:
    """Return what to ask after this answer: its next page, or what came into the ledger since."""
    if not answer.requests:
        return msgspec.structs.replace(asked, after=None)
    last = answer.requests[-1]
    assert last.drained_at is not None, "what is listed by this time has one"
    return msgspec.structs.replace(
        asked,
        drained_after=last.drained_at.astimezone(UTC).isoformat(),
        after=f"{last.request}.{last.attempt}" if answer.has_more else None,
    )


def _line(row: RequestRow, names: Mapping[str, str]) -> Text:
    text = Text(f"{row.asked_at.astimezone(UTC):%H:%M:%S} ")
    text.append(row.outcome, style=_COLOURS.get(row.outcome, "green"))
    prompt = NOTHING if row.prompt_tokens is None else short(row.prompt_tokens)
    output = NOTHING if row.output_tokens is None else short(row.output_tokens)
    text.append(f" {prompt}→{output} {percent(_hit(row))} cached, {milliseconds(_wait(row))}")
    text.append(f", {dollars(row.charge_nanousd)}")
    labels = (row.workflow, row.session, names.get(row.account, row.account), row.replica)
    text.append(f"  {' '.join(filter(None, labels))}  {row.request}", style="dim")
    if row.why:
        text.append(f"  {', '.join(row.why)}", style="yellow")
    return text


def request_cells(row: RequestRow, names: Mapping[str, str]) -> tuple[Cell, ...]:
    outcome = [] if row.outcome == "ok" or row.error else [row.outcome]
    return (
        f"{row.asked_at.astimezone(UTC):%m-%d %H:%M:%S}",
        row.request,
        Text(", ".join((*outcome, *row.why)) or NOTHING, style=_COLOURS.get(row.outcome, "")),
        milliseconds(_wait(row)),
        dollars(row.charge_nanousd),
        row.workflow or NOTHING,
        NOTHING if row.prompt_tokens is None else short(row.prompt_tokens),
        percent(_hit(row)),
        NOTHING if row.output_tokens is None else short(row.output_tokens),
        row.replica or NOTHING,
        row.session or NOTHING,
        names.get(row.account, row.account),
        last_part(row.model),
    )


def _wait(row: RequestRow) -> float | None:
    """Return what the caller of a stream waited for its first token."""
    return None if row.first_token_ms is None else row.waited_ms + row.first_token_ms


def _hit(row: RequestRow) -> float | None:
    return None if row.cached_tokens is None else ratio(row.cached_tokens, row.prompt_tokens or 0)
