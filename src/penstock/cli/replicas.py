"""`penstock replicas`: lists, shows, drains and restarts replicas, and reads engines' logs."""

import asyncio
from typing import Annotated

import typer

from penstock.cli.administration import Administration, administer, run_operation
from penstock.cli.job_facts import print_facts
from penstock.cli.job_watch import age
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import print_json, print_table
from penstock.cli.table import Column, Columns
from penstock.clock import SystemClock
from penstock.console.fleet_operations import (
    DRAIN_REPLICA,
    LIST_REPLICAS,
    READ_REPLICA_LOG,
    RESTART_REPLICA,
    SHOW_REPLICA,
    LogAsked,
    ReplicaNamed,
    ReplicasAsked,
    ReplicaUse,
)
from penstock.console.formats import NOTHING, last_part, milliseconds, percent
from penstock.fleet.replica_rows import ReplicaRow
from penstock.records.host import gpus_in_words

app = typer.Typer(help="See, drain and restart replicas.", no_args_is_help=True)

_FOLLOW_SECONDS = 1.0
REPLICA_COLUMNS: Columns = (
    *("replica", "state", "model"),
    Column("host", is_optional=True),
    *(Column(title, is_right=True) for title in ("age", "running", "waiting")),
    *(
        Column(title, is_right=True, is_optional=True)
        for title in ("KV", "cached", "first token", "GPUs")
    ),
    Column("why", is_optional=True),
)
_Replica = Annotated[str, typer.Argument(metavar="ID", help="The replica's id.")]


@app.command(name="list")
def list_(
    context: typer.Context,
    *,
    model: Annotated[str | None, typer.Option(help="Only of this model, by its id.")] = None,
    gone: Annotated[
        bool, typer.Option("--gone", help="Also those that have ended within a day.")
    ] = False,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """List the replicas: where they run, what they do now, and how they did in the last hour."""
    asked = ReplicasAsked(model=model, with_gone=gone)
    found = run_operation(context, state, LIST_REPLICAS, asked)
    if json:
        print_json(found)
        return
    now = SystemClock().now()
    print_table(
        REPLICA_COLUMNS, [replica_cells(row, found.use.get(row.id), now) for row in found.replicas]
    )


@app.command()
def show(
    context: typer.Context,
    replica: _Replica,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Show one replica."""
    _print(run_operation(context, state, SHOW_REPLICA, ReplicaNamed(replica=replica)), json)


@app.command()
def drain(
    context: typer.Context,
    replica: _Replica,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Let a replica finish its requests, then end it. As many as are wanted run again after it."""
    _print(run_operation(context, state, DRAIN_REPLICA, ReplicaNamed(replica=replica)), json)


@app.command()
def restart(
    context: typer.Context,
    replica: _Replica,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """End a replica at once: its requests are cut off. Another one replaces it."""
    _print(run_operation(context, state, RESTART_REPLICA, ReplicaNamed(replica=replica)), json)


@app.command()
def logs(
    context: typer.Context,
    replica: _Replica,
    *,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on until Ctrl-C.")] = False,
    state: StateOption = DEFAULT_STATE,
) -> None:
    """Print the end of an engine's log, which its keeper sends."""

    async def run(desk: Administration) -> None:
        part = await desk.run(READ_REPLICA_LOG, LogAsked(replica=replica))
        typer.echo(part.text, nl=False)
        while follow:
            await asyncio.sleep(_FOLLOW_SECONDS)
            part = await desk.run(READ_REPLICA_LOG, LogAsked(replica=replica, after=part.position))
            typer.echo(part.text, nl=False)

    administer(context, state, run)


def replica_cells(row: ReplicaRow, use: ReplicaUse | None, now: float) -> tuple[str, ...]:
    load = row.load
    return (
        row.id,
        f"{row.state} ({row.asked})" if row.asked else row.state,
        last_part(row.model),
        row.host,
        age(now - row.started_at),
        str(load.running),
        str(load.waiting),
        percent(load.kv_use),
        NOTHING if use is None else percent(use.hit_ratio),
        NOTHING if use is None else milliseconds(use.first_token_p50_ms),
        str(len(row.gpus)),
        _why(row),
    )


def _why(row: ReplicaRow) -> str:
    return row.detail or (f"part of {row.leader}" if row.leader else "")


def _print(row: ReplicaRow, json: bool) -> None:
    if json:
        print_json(row)
        return
    now = SystemClock().now()
    facts = {
        "replica": row.id,
        "state": row.state,
        "asked": row.asked or None,
        "why": _why(row) or None,
        "model": row.model,
        "host": row.host,
        "address": row.url,
        "GPUs": f"{gpus_in_words(len(row.gpus))}: {', '.join(row.gpus)}" if row.gpus else None,
        "age": age(now - row.started_at),
        "in state": age(now - row.changed_at),
        "heard of": f"{age(row.silent_seconds)} ago",
        "running": row.load.running,
        "waiting": row.load.waiting,
        "KV in use": percent(row.load.kv_use),
    }
    print_facts(facts)
