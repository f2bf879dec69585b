"""`penstock flex`: pauses, resumes or limits a model's flex work, directly in the database."""

import asyncio
from typing import Annotated

import msgspec
import typer

from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, last_part, print_json, print_table
from penstock.cli.postgres import opened
from penstock.cli.table import Column
from penstock.cli.up.known_models import known_models
from penstock.config import Config
from penstock.queue import FlexControl, FlexStats, Queue
from penstock.records.model import ModelId

app = typer.Typer(help="Pause, resume and limit flex work, and see how it does.")

Model = Annotated[str, typer.Argument(metavar="MODEL", help="The model's id or alias.")]


class ShownControl(msgspec.Struct, frozen=True):
    """One model's flex work."""

    model: ModelId
    control: FlexControl
    stats: FlexStats | None


@app.command()
def pause(
    context: typer.Context,
    model: Model,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Start no more jobs of a model; those that run go on. Every keeper applies it within 2 s."""
    _change(context, model, state, json=json, is_paused=True)


@app.command()
def resume(
    context: typer.Context,
    model: Model,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Let a paused model's jobs go on."""
    _change(context, model, state, json=json, is_paused=False)


@app.command()
def limit(
    context: typer.Context,
    model: Model,
    count: Annotated[
        int | None,
        typer.Argument(metavar="[N]", help="Jobs at a time on each replica; none: no limit."),
    ] = None,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Bound how many jobs of a model run at a time on each replica."""
    if count is not None and count < 0:
        raise CommandFailed("A limit is 0 or more; without one there is none.", ExitCode.USAGE)
    _change(context, model, state, json=json, in_flight_max=count)


@app.command()
def show(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Show every model's flex work: what waits and runs, and what is paused or limited."""
    config = invocation(context).load().config

    async def run() -> list[ShownControl]:
        async with opened(config, state) as store, store.transaction() as transaction:
            queue = Queue(config.queue)
            controls = await queue.controls(transaction)
            stats = await queue.stats(transaction)
        return [
            ShownControl(model, controls.get(model, FlexControl()), stats.get(model))
            for model in sorted(controls.keys() | stats.keys())
        ]

    shown = asyncio.run(run())
    if json:
        print_json(shown)
        return
    print_table(
        (
            *("model", "state", "limit"),
            *(Column(title, is_right=True) for title in ("queued", "running", "oldest")),
            Column("within 5 min", is_right=True, is_optional=True),
        ),
        [_cells(each) for each in shown],
    )


def _change(
    context: typer.Context, name: str, state: StateOption, *, json: bool, **fields: object
) -> None:
    config = invocation(context).load().config
    model = known_models(config, state).find(name).id
    control = asyncio.run(_set(config, state, model, fields))
    if json:
        print_json(ShownControl(model, control, None))
        return
    said = "[yellow]paused[/]" if control.is_paused else "[green]runs[/]"
    most = "" if control.in_flight_max is None else f", at most {control.in_flight_max} a replica"
    console().print(f"flex {model} {said}{most}")


async def _set(
    config: Config, state: StateOption, model: ModelId, fields: dict[str, object]
) -> FlexControl:
    queue = Queue(config.queue)
    async with opened(config, state) as store, store.transaction() as transaction:
        before = (await queue.controls(transaction)).get(model, FlexControl())
        control = msgspec.structs.replace(before, **fields)
        await queue.set_control(transaction, model, control)
    return control


def _cells(shown: ShownControl) -> tuple[str, ...]:
    control, stats = shown.control, shown.stats
    most = "" if control.in_flight_max is None else str(control.in_flight_max)
    head = (last_part(shown.model), "paused" if control.is_paused else "runs", most)
    if stats is None:
        return (*head, "0", "0", "", "")
    return (*head, *_figures(stats))


def _figures(stats: FlexStats) -> tuple[str, ...]:
    oldest, soon = stats.oldest_created_at, stats.started_soon
    return (
        str(stats.queued),
        str(stats.running),
        "" if oldest is None else f"{max(0.0, stats.measured_at - oldest):.0f} s",
        "" if soon is None else f"{soon:.1%}",
    )
