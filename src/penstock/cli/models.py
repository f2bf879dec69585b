"""`penstock models`: the catalogue as this configuration sees it, and a check of your entries."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape

from penstock.catalogue import CatalogueError, load_catalogue
from penstock.catalogue.entry import read_entry
from penstock.catalogue.settings import CatalogueSettings
from penstock.cli.dollars import exact_usd
from penstock.cli.exit_codes import CommandFailed, ExitCode
from penstock.cli.options import JsonOption, invocation
from penstock.cli.output import console, error_console, print_json, print_table
from penstock.cli.table import Column, Columns
from penstock.clock import SystemClock
from penstock.records.model import Model
from penstock.records.price import ONCE, Prices

app = typer.Typer(help="List, show and check models.", invoke_without_command=True)

_NANO = 10**9
_COLUMNS: Columns = (
    "id",
    *(Column(title, is_right=True) for title in ("context", "GPUs")),
    "$/Mtok in, cached, out",
    *(Column(title, is_optional=True) for title in ("aliases", "family", "can")),
)


@app.callback()
def group(context: typer.Context) -> None:
    """List, show and check models; without a command: list."""
    if context.invoked_subcommand is None:
        list_(context)


@app.command(name="list")
def list_(context: typer.Context, json: JsonOption = False) -> None:
    """List every model of the catalogue, built in and yours."""
    models = load_catalogue(invocation(context).load().config.catalogue).models
    if json:
        print_json([_plain(model) for model in models])
        return
    today = datetime.fromtimestamp(SystemClock().now(), UTC).date()
    print_table(_COLUMNS, (_row(model, today) for model in models))


@app.command(name="show")
def show_(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Id or alias; `default` is the default model.")],
    json: JsonOption = False,
) -> None:
    """Show one model: its names, prices and the command that starts its engine."""
    model = load_catalogue(invocation(context).load().config.catalogue).find(name)
    if json:
        print_json(_plain(model))
        return
    print_table(("key", Column("value", is_prose=True)), _facts(model))


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


def _plain(record: msgspec.Struct) -> dict[str, object]:
    return {
        key: msgspec.to_builtins(value) for key, value in msgspec.structs.asdict(record).items()
    }


def _row(model: Model, today: date) -> tuple[str, ...]:
    prices = model.prices_on(today)
    each = (
        prices.input_nanousd_per_mtok,
        prices.cached_input_nanousd_per_mtok,
        prices.output_nanousd_per_mtok,
    )
    return (
        model.id,
        f"{model.context_tokens:,}",
        str(model.recipe.gpus),
        " ".join(f"{price / _NANO:.3g}" for price in each),
        ", ".join(model.aliases),
        model.family,
        ", ".join(sorted(model.capabilities)),
    )


def _facts(model: Model) -> list[tuple[str, str]]:
    """Return what `show` prints: the entry's fields, its prices in dollars, and its recipe."""
    facts = []
    for key, value in _plain(model).items():
        if key == "prices":
            facts += [("price", _price_line(row)) for row in model.prices]
        elif key != "recipe":
            facts.append((key, _text(value)))
    facts += [(f"recipe.{key}", _text(value)) for key, value in _plain(model.recipe).items()]
    return [(key, text) for key, text in facts if text]


def _price_line(row: Prices) -> str:
    """Return one row of the price book in words, per million tokens."""
    prices = (
        f"{_usd(row.input_nanousd_per_mtok)} input",
        f"{_usd(row.cached_input_nanousd_per_mtok)} cached",
        f"{_usd(row.output_nanousd_per_mtok)} output",
    )
    parts = {"now": row.now_bp, "flex": row.flex_bp, "batch": row.batch_bp}
    tiers = [f"{tier} x {bp / ONCE:g}" for tier, bp in parts.items() if bp != ONCE]
    since = f"from {row.valid_from}: " if row.valid_from else ""
    return f"{since}{', '.join(prices)} for a million tokens; {', '.join(tiers)}".rstrip("; ")


def _usd(nanousd: int) -> str:
    return exact_usd(Decimal(nanousd).scaleb(-9))


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    if isinstance(value, dict):
        return " ".join(f"{key}={item}" for key, item in value.items())
    return str(value)
