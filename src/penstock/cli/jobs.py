"""`penstock jobs`: lists, shows, cancels and watches jobs, directly in the database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.live import Live
from rich.text import Text

from penstock.cli.job_facts import batch_facts, job_facts, job_state, print_facts
from penstock.cli.job_watch import (
    WatchRow,
    age,
    stale_line,
    watch_line,
    watch_table,
)
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, error_console, last_part, print_json, print_table
from penstock.cli.postgres import opened
from penstock.cli.queue_desk import QueueDesk, QueueNotes
from penstock.cli.table import Column, Columns
from penstock.cli.usage.figures import NOTHING, dollars
from penstock.clock import SystemClock
from penstock.ingress.jobs.job_answers import SeenJob, job_answer
from penstock.queue import Batch, JobQuery
from penstock.records.job import BatchId, Job, JobId, JobState
from penstock.records.model import ModelId
from penstock.wire.resources.jobs import read_batch, read_id

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
_Answer = TypeVar("_Answer")


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
    before = read_id(after, "after")
    of_batch = read_batch(batch)
    query = JobQuery(
        account=None,
        model=None if model is None else ModelId(model),
        state=only,
        batch=None if of_batch is None else BatchId(of_batch),
        after=None if before is None else JobId(before),
        limit=limit,
    )
    (jobs, has_more), notes = _ask(context, state, lambda desk: desk.page(account, query))
    if json:
        print_json([job_answer(job) for job in jobs])
        return
    now = SystemClock().now()
    print_table(_COLUMNS, (_row(job, now, notes) for job in jobs))
    if has_more:
        error_console().print(f"There are more: --after {jobs[-1].id}")


@app.command()
def show(
    context: typer.Context, id: _Job, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Show one job, or one batch: its state, its place in line, and how it ended."""
    _print(*_ask(context, state, lambda desk: desk.noted(desk.find(id))), json=json)


@app.command()
def cancel(
    context: typer.Context, id: _Job, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Cancel a job or a batch: at once what waits; what runs is stopped soon."""
    _print(*_ask(context, state, lambda desk: desk.noted(desk.cancel(id))), json=json)


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
    of_batch = read_batch(batch)

    async def run(desk: QueueDesk) -> None:
        rounds = desk.rounds(model, of_batch, 0.0 if once else seconds)
        await _print_rounds(rounds, json=json)

    _ask(context, state, run)


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


def _ask(
    context: typer.Context, state: Path, question: Callable[[QueueDesk], Awaitable[_Answer]]
) -> _Answer:
    config = invocation(context).load().config

    async def run() -> _Answer:
        async with opened(config, state) as store:
            return await question(QueueDesk(store, config, SystemClock()))

    return asyncio.run(run())


def _row(job: Job, now: float, notes: QueueNotes) -> tuple[str, ...]:
    begun = job.started_at or job.finished_at or now
    ended = job.finished_at or now
    return (
        job.id,
        job_state(job, notes),
        last_part(job.model),
        age(begun - job.created_at),
        NOTHING if job.started_at is None else age(ended - job.started_at),
        dollars(job.charge_nanousd) if job.state is JobState.SUCCEEDED else NOTHING,
        notes.names.get(job.account, job.account),
    )


def _print(found: SeenJob | Batch, notes: QueueNotes, *, json: bool) -> None:
    if isinstance(found, Batch):
        if json:
            print_json(found)
        else:
            print_facts(batch_facts(found, notes))
    elif json:
        print_json(job_answer(found.job, found))
    else:
        print_facts(job_facts(found, notes))
