"""`penstock flex`: pauses, resumes or limits a model's flex work."""

from pathlib import Path
from typing import Annotated

import typer

from penstock.cli.administration import run_operation
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption
from penstock.cli.output import console, print_json, print_table
from penstock.cli.table import Column
from penstock.console.flex_operations import CHANGE_FLEX, SHOW_FLEX, FlexChange, ShownControl
from penstock.console.formats import last_part
from penstock.console.operation import Nothing
from penstock.queue import FlexStats

app = typer.Typer(help="Pause, resume and limit flex work, and see how it does.")

Model = Annotated[str, typer.Argument(metavar="MODEL", help="The model's id or alias.")]


@app.command()
def pause(
    context: typer.Context,
    model: Model,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Start no more jobs of a model; those that run go on. Every keeper applies it within 2 s."""
    _change(context, state, FlexChange(model=model, is_paused=True), json=json)


@app.command()
def resume(
    context: typer.Context,
    model: Model,
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Let a paused model's jobs go on."""
    _change(context, state, FlexChange(model=model, is_paused=False), json=json)


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
    _change(context, state, FlexChange(model=model, in_flight_max=count), json=json)


@app.command()
def show(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """Show every model's flex work: what waits and runs, and what is paused or limited."""
    shown = run_operation(context, state, SHOW_FLEX, Nothing()).models
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


def _change(context: typer.Context, state: Path, asked: FlexChange, *, json: bool) -> None:
    changed = run_operation(context, state, CHANGE_FLEX, asked)
    if json:
        print_json(changed)
        return
    control = changed.control
    said = "[yellow]paused[/]" if control.is_paused else "[green]runs[/]"
    most = "" if control.in_flight_max is None else f", at most {control.in_flight_max} a replica"
    console().print(f"flex {changed.model} {said}{most}")


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
