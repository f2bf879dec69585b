"""Prints a comparison of two periods: the whole change, then a table of rows with their parts.

On a terminal, parts that are 0 everywhere are left out, the largest parts stand first, and what
made a row change is a line below it. A pipe gets every part, and that line as the last column.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from rich.text import Text

from penstock.cli.output import console, error_console
from penstock.cli.table import Cell, Column, lay_out
from penstock.console.formats import dollars, signed_amount
from penstock.wire.resources.usage_difference import ChangeParts, DifferenceAnswer, DifferenceRow

_PARTS: Final = ChangeParts.__struct_fields__
_NONE: Final = "none"
_OTHER: Final = "other"
_DOLLAR: Final = 10**9


def print_difference(answer: DifferenceAnswer, names: Mapping[str, str]) -> None:
    """Print the comparison; `names` are those of accounts, by id."""
    out = console()
    for text in heading(answer):
        out.print(Text(text))
    if not answer.rows:
        out.print("Nothing was used in either of them.")
        return
    columns, rows = difference_table(answer, names, is_short=out.is_terminal)
    if not out.is_terminal:
        columns.append(Column("why"))
        rows = [[*row, each.why] for row, each in zip(rows, answer.rows, strict=True)]
    lines, left_out = lay_out(columns, rows, out)
    out.print(lines[0], soft_wrap=True)
    for line, row in zip(lines[1:], answer.rows, strict=True):
        out.print(line, soft_wrap=True)
        if out.is_terminal and row.why:
            for part in Text(f"  {row.why}", style="dim").wrap(out, out.width):
                out.print(part, soft_wrap=True)
    if left_out:
        error_console().print(f"[dim]no room for: {', '.join(left_out)}[/]", soft_wrap=True)
    _warn(answer)


def heading(answer: DifferenceAnswer) -> list[str]:
    """Return the periods and the whole change with all its parts."""
    total = answer.total
    is_fine = _is_fine([total])
    parts = ", ".join(
        f"{name} {signed_amount(size, is_fine=is_fine)}" for name, size in _sizes(total).items()
    )
    change = signed_amount(total.change_nanousd, is_fine=is_fine)
    return [
        f"{_period(answer.since, answer.until)} against"
        f" {_period(answer.against_since, answer.against_until)}, UTC",
        f"{dollars(total.before_nanousd)} → {dollars(total.after_nanousd)} ({change}): {parts}",
    ]


def difference_table(
    answer: DifferenceAnswer, names: Mapping[str, str], *, is_short: bool
) -> tuple[list[Column], list[list[Cell]]]:
    """Return columns and rows; in short, only parts that are not 0, the largest first."""
    is_fine = _is_fine(answer.rows)

    def shown(size: int) -> str:
        return signed_amount(size, is_fine=is_fine)

    sizes = [_sizes(row) for row in answer.rows]
    parts = list(_PARTS)
    if is_short:
        parts = [name for name in parts if any(shown(each[name]) != "0" for each in sizes)]
        parts.sort(key=lambda name: -sum(abs(each[name]) for each in sizes))
    columns = [
        *(Column(name) for name in answer.by),
        *(Column(title, is_right=True) for title in ("from", "to")),
        *(Column(name, is_right=True, is_optional=True) for name in parts),
    ]
    rows: list[list[Cell]] = [
        [
            *_labels(answer, row, names),
            dollars(row.before_nanousd),
            dollars(row.after_nanousd),
            *(shown(each[name]) for name in parts),
        ]
        for row, each in zip(answer.rows, sizes, strict=True)
    ]
    return columns, rows


def _labels(answer: DifferenceAnswer, row: DifferenceRow, names: Mapping[str, str]) -> list[str]:
    if row.is_other:
        return [_OTHER, *("" for _ in answer.by[1:])]
    labels = row.labels
    return [
        (names.get(labels[name], labels[name]) if name == "account" else labels[name]) or _NONE
        for name in answer.by
    ]


def _sizes(row: DifferenceRow) -> dict[str, int]:
    return msgspec.structs.asdict(row.parts_nanousd)


def _is_fine(rows: list[DifferenceRow]) -> bool:
    """Return whether all amounts are so small that cents do not show them."""
    return all(max(row.before_nanousd, row.after_nanousd) < _DOLLAR for row in rows)


def _period(since: datetime, until: datetime) -> str:
    if since.hour == until.hour == 0:
        last = until - timedelta(days=1)
        return f"{since:%Y-%m-%d}" if last == since else f"{since:%Y-%m-%d} to {last:%Y-%m-%d}"
    return f"{since:%Y-%m-%d %Hh} to {until:%Y-%m-%d %Hh}"


def _warn(answer: DifferenceAnswer) -> None:
    """Name the models whose prices the report could not be sure of."""
    for models, text in (
        (answer.unpriced_models, "not in the catalogue; counted at what a token was charged"),
        (answer.dearer_models, "charged more than the catalogue's prices; see `uncharged`"),
    ):
        if models:
            error_console().print(Text(f"{', '.join(models)}: {text}", style="dim"))
