"""`penstock models`: the catalogue as this configuration sees it, a check of your entries, and a
fetch of weights."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from penstock.catalogue import CatalogueError, load_catalogue
from penstock.catalogue.entry import read_entry
from penstock.catalogue.settings import CatalogueSettings
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.model_facts import MODEL_COLUMNS, model_facts, model_row, plain_model
from penstock.cli.model_fetch import fetch_
from penstock.cli.options import DEFAULT_STATE, JsonOption, StateOption, invocation
from penstock.cli.output import console, error_console, print_json, print_table
from penstock.cli.running_models import States, running_models
from penstock.cli.table import Column
from penstock.cli.up.known_models import known_models
from penstock.clock import SystemClock
from penstock.records.model import Model, ModelId

app = typer.Typer(help="List, show, check and fetch models.", invoke_without_command=True)
app.command(name="fetch")(fetch_)


@app.callback()
def group(context: typer.Context) -> None:
    """List, show, check and fetch models; without a command: list."""
    if context.invoked_subcommand is None:
        list_(context)


@app.command(name="list")
def list_(
    context: typer.Context, state: StateOption = DEFAULT_STATE, json: JsonOption = False
) -> None:
    """List every model: built in, yours and attached ones; those that run here stand first."""
    config = invocation(context).load().config
    models, running = known_models(config, state).models, running_models(config, state)
    if json:
        print_json([{**plain_model(each), "replicas": _replicas(each, running)} for each in models])
        return
    today = datetime.fromtimestamp(SystemClock().now(), UTC).date()
    ordered = sorted(models, key=lambda each: not _replicas(each, running))
    rows = [model_row(each, today, _replicas(each, running)) for each in ordered]
    print_table(MODEL_COLUMNS, rows)


@app.command(name="show")
def show_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Id or alias; `default` is the default model.")],
    state: StateOption = DEFAULT_STATE,
    json: JsonOption = False,
) -> None:
    """Show one model: its names, prices and the command that starts its engine."""
    model = known_models(invocation(context).load().config, state).find(name)
    if json:
        print_json(plain_model(model))
        return
    print_table(("key", Column("value", is_prose=True)), model_facts(model))


@app.command()
def check(
    context: typer.Context,
    folder: Annotated[
        Path | None, typer.Argument(help="Folder with entries; catalogue.folder if not given.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check every entry of a folder, and all of them together. Exit 1 when one is wrong."""
    settings = invocation(context).load().config.catalogue
    if folder is not None:
        settings = msgspec.structs.replace(settings, folder=str(folder), default_model="")
    if not settings.folder:
        raise CommandFailed("Name a folder, or set catalogue.folder.", ExitCode.USAGE)
    problems = _problems(settings)
    if json:
        print_json({"folder": settings.folder, "problems": problems})
    else:
        for problem in problems:
            error_console().print(f"[red]wrong[/] {escape(problem)}", soft_wrap=True)
        if not problems:
            console().print(f"[green]ok[/] every entry in {settings.folder}")
    if problems:
        raise typer.Exit(ExitCode.FAILED)


def _problems(settings: CatalogueSettings) -> list[str]:
    problems = []
    for path in sorted(Path(settings.folder).expanduser().glob("*.toml")):
        try:
            read_entry(path.read_text())
        except CatalogueError as wrong:
            problems.append(str(wrong.in_file(str(path))))
        except UnicodeDecodeError:
            problems.append(f"{path}: this is not UTF-8. Save the file as UTF-8")
    if not problems:
        # Check for conflicts between entries only if each entry is valid by itself.
        try:
            load_catalogue(settings)
        except CatalogueError as wrong:
            problems.append(str(wrong))
    return problems


def _replicas(model: Model, running: Mapping[ModelId, States] | None) -> States | None:
    """Return the states of a model's replicas; None where no cell was asked."""
    return None if running is None else running.get(model.id, {})
