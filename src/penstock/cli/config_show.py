"""`penstock config show`: prints each value and its source, with secrets hidden."""

import typer
from rich.text import Text

from penstock.cli.options import JsonOption, invocation
from penstock.cli.output import print_json, print_table
from penstock.cli.table import Column
from penstock.config import Shown, show, toml

app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Look at the configuration."""


@app.command(name="show")
def show_(context: typer.Context, json: JsonOption = False) -> None:
    """Print every setting, its value and where that came from. Secrets are hidden."""
    shown = show(invocation(context).load())
    if json:
        print_json(shown)
        return
    columns = ("setting", Column("value", is_prose=True), Column("from", is_prose=True))
    print_table(columns, (_row(each) for each in shown))


def _row(setting: Shown) -> tuple[str, str, Text]:
    style = "dim" if setting.source == "default" else "green"
    return setting.name, toml(setting.value), Text(setting.source, style=style)
