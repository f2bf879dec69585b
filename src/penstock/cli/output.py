"""Prints results: tables and colours for people, JSON for scripts."""

from collections.abc import Iterable, Sequence

import msgspec
import typer
from rich.console import Console
from rich.markup import escape

from penstock.cli.table import Cell, Columns, lay_out
from penstock.records.usage import Usage

# A pipe has no width; lines for it must not be folded or cut.
_PIPE_COLUMNS = 1000


def console() -> Console:
    """Return a console on the present standard output."""
    return _sized(Console(highlight=False))


def error_console() -> Console:
    """Return a console on standard error, for progress, warnings and errors, never results."""
    return _sized(Console(stderr=True, highlight=False))


def print_error(line: str) -> None:
    error_console().print(f"[red]error:[/] {escape(line)}", soft_wrap=True)


def print_json(value: object) -> None:
    typer.echo(write_json(value))


def write_json(value: object) -> bytes:
    return msgspec.json.encode(value, enc_hook=_plain)


def _plain(value: object) -> object:
    """Convert what msgspec cannot encode: a Usage to its fields, all else to text."""
    if isinstance(value, Usage):
        return {
            "prompt_tokens": value.prompt_tokens,
            "completion_tokens": value.completion_tokens,
            "cached_tokens": value.cached_tokens,
        }
    return str(value)


def print_table(columns: Columns, rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table; a note on standard error names columns that found no room."""
    out = console()
    lines, left_out = lay_out(columns, rows, out)
    for line in lines:
        out.print(line, soft_wrap=True)
    if left_out:
        error_console().print(f"[dim]no room for: {', '.join(left_out)}[/]", soft_wrap=True)


def _sized(made: Console) -> Console:
    if not made.is_terminal:
        made.width = _PIPE_COLUMNS
    return made
