"""`penstock jobs`: lists, shows, cancels and watches jobs."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.live import Live
from rich.text import Text

from penstock.cli.administration import Administration, administer, run_operation
from penstock.cli.exit_codes import CommandFailed
from penstock.cli.job_facts import batch_facts, job_facts, job_state, print_facts
from penstock.cli.job_watch import (
    Backlog,
    WatchRow,
    age,
    batch_row,
    stale_line,
    watch_line,
    watch_table,
)
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, error_console, print_json, print_table
from penstock.cli.table import Column, Columns
from penstock.clock import SystemClock
from penstock.console.formats import NOTHING, dollars, last_part
from penstock.console.job_operations import (
    CANCEL_JOB,
    LIST_JOBS,
    LIST_QUEUES,
    SHOW_JOB,
    FoundJob,
    JobFilters,
    JobNamed,
    JobNotes,
)
from penstock.console.operation import Nothing
from penstock.records.job import JobState
from penstock.records.model import ModelId
from penstock.wire.resources.jobs import JobAnswer

app = typer.Typer(help="List, show, cancel and watch queued work.", no_args_is_help=True)

_COLUMNS: Columns = (
    *("id", "state", "model"),
    Column("waited", is_right=True),
    *(Column(title, is_right=True, is_optional=True) for title in ("ran", "cost")),
    Column("account", is_optional=True),
)
_Job = Annotated[
    str, typer.Argument(metavar="ID", help="The id of a job, a batch or a request_id.")
]


@app.command(name="list")
def list_(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    only: Annotated[JobState | None, typer.Option("--in", help="Only in this state.")] = None,
    account: Annotated[str | None, typer.Option(help="Only this account's, by name or id.")] = None,
    model: Annotated[str | None, typer.Option(help="Only of this model, by its id.")] = None,
    batch: Annotated[str | None, typer.Option(help="Only of this batch or request_id.")] = None,
    after: Annotated[str | None, typer.Option(help="Only older than this job.")] = None,
    limit: Annotated[int, typer.Option(help="How many, at most.", min=1, max=1000)] = 20,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """List jobs, newest first."""
    asked = JobFilters(
        account=account, model=model, state=only, batch=batch, after=after, limit=limit
    )
    found = run_operation(context, state, LIST_JOBS, asked)
    if json:
        print_json(found.jobs)
        return
    now = datetime.fromtimestamp(SystemClock().now(), UTC)
    print_table(_COLUMNS, (_row(job, now, found.notes) for job in found.jobs))
    if found.has_more:
        error_console().print(f"There are more: --after {found.jobs[-1].id}")


@app.command()
def show(
    context: typer.Context, id: _Job, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Show one job, or one batch: its state, its place in line, and how it ended."""
    _print(run_operation(context, state, SHOW_JOB, JobNamed(id=id)), json=json)


@app.command()
def cancel(
    context: typer.Context, id: _Job, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Cancel a job or a batch: at once what waits; what runs is stopped soon."""
    _print(run_operation(context, state, CANCEL_JOB, JobNamed(id=id)), json=json)


@app.command()
def watch(  # noqa: PLR0913 - each is an option of the command line
    context: typer.Context,
    *,
    model: Annotated[str | None, typer.Option(help="Only this model's queue.")] = None,
    batch: Annotated[
        str | None, typer.Option(help="One batch or request_id instead of whole queues.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How often to look.", min=0.1, max=3600)] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look once, and end.")] = False,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Watch queues shrink until they are empty: depth, speed and time to go, model by model."""
    every = 0.0 if once else seconds

    async def run(desk: Administration) -> None:
        rounds = _rounds(desk, model, batch, every)
        await _print_rounds(rounds, json=json)

    administer(context, state, run)


async def _rounds(
    desk: Administration, model: str | None, batch: str | None, seconds: float
) -> AsyncIterator[list[WatchRow]]:
    """Yield rows at intervals until no job is open; once if `seconds` is 0."""
    backlog, clock = Backlog(), SystemClock()
    while True:
        found = await desk.run(LIST_QUEUES, Nothing())
        paused = frozenset(found.paused)
        if batch is None:
            rows = backlog.rows(found.queues, paused, clock.now())
            rows = [row for row in rows if model in (None, row.name)]
        else:
            of_batch = (await desk.run(SHOW_JOB, JobNamed(id=batch))).batch
            if of_batch is None:
                raise CommandFailed(f"There is no batch {batch}.")
            of_model = found.queues.get(of_batch.model or ModelId(""))
            rows = [batch_row(of_batch, of_model, paused, clock.now())]
        yield rows
        if not seconds or all(row.is_done for row in rows):
            return
        await asyncio.sleep(seconds)


async def _print_rounds(rounds: AsyncIterator[list[WatchRow]], *, json: bool) -> None:
    out = console()
    if json:
        async for rows in rounds:
            print_json(rows)
        return
    rows = []
    if out.is_terminal:
        with Live(console=out, auto_refresh=False) as live:
            async for rows in rounds:
                live.update(watch_table(rows, out), refresh=True)
    else:
        told: list[str] = []
        async for rows in rounds:
            lines = [watch_line(row) for row in rows]
            for line in lines:
                if line not in told:
                    out.print(Text(line), soft_wrap=True)
            told = lines
    if not rows:
        out.print("Nothing is queued.")
    old = stale_line(rows)
    if old:
        error_console().print(old, soft_wrap=True)


def _row(job: JobAnswer, now: datetime, notes: JobNotes) -> tuple[str, ...]:
    begun = job.started_at or job.finished_at or now
    ended = job.finished_at or now
    return (
        job.id,
        job_state(job, notes),
        last_part(job.model),
        age((begun - job.created_at).total_seconds()),
        NOTHING if job.started_at is None else age((ended - job.started_at).total_seconds()),
        dollars(job.cost_nanousd) if job.state == JobState.SUCCEEDED else NOTHING,
        notes.account_names.get(job.account, job.account),
    )


def _print(found: FoundJob, *, json: bool) -> None:
    if found.batch is not None:
        if json:
            print_json(found.batch)
        else:
            print_facts(batch_facts(found.batch, found.notes))
    elif found.job is not None:
        if json:
            print_json(found.job)
        else:
            print_facts(job_facts(found.job, found.notes))
