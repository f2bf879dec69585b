"""Lays out tables for terminals: ids stay whole, and columns that do not fit are left out.

A pipe gets every column, in lines that are as long as what they hold.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from rich.console import Console
from rich.text import Text

_GAPS: Final = (2, 1)
# A column of prose that would be narrower is not readable.
_PROSE_MIN: Final = 20

Cell = str | Text


class Column(NamedTuple):
    """One column. Optional ones are left out where they do not fit, the rightmost first.

    Prose may be broken between words; nothing else is ever broken.
    """

    title: str
    is_right: bool = False
    is_optional: bool = False
    is_prose: bool = False


Columns = Sequence[str | Column]


class TableLayout(NamedTuple):
    """The lines of a table, and the titles of the columns that were left out."""

    lines: list[Text]
    left_out: list[str]


def lay_out(columns: Columns, rows: Iterable[Sequence[Cell]], console: Console) -> TableLayout:
    """Return the lines of a table for a console; one that is no terminal has no width."""
    known = [Column(each) if isinstance(each, str) else each for each in columns]
    head = [Text(each.title, style="bold") for each in known]
    cells = [head, *([_text(cell) for cell in row] for row in rows)]
    widths = [max(row[number].cell_len for row in cells) for number in range(len(known))]
    room = console.width if console.is_terminal else None
    shown, gap = _choose(known, widths, room)
    kept = [known[number] for number in shown]
    widths = [widths[number] for number in shown]
    if room is not None:
        widths = _narrow_prose(kept, widths, room - gap * (len(kept) - 1))
    lines = []
    for row in cells:
        lines += _lines([row[number] for number in shown], kept, widths, gap, console)
    hidden = [each.title for number, each in enumerate(known) if number not in shown]
    has_titles = any(each.title for each in known)
    return TableLayout(lines if has_titles else lines[1:], [title for title in hidden if title])


def _choose(
    columns: Sequence[Column], widths: Sequence[int], room: int | None
) -> tuple[list[int], int]:
    """Return the columns that fit, by number, and the gap between them."""
    shown = list(range(len(columns)))
    optional = [number for number in shown if columns[number].is_optional]
    while True:
        for gap in _GAPS:
            least = sum(_least(columns[number], widths[number]) for number in shown)
            if room is None or least + gap * (len(shown) - 1) <= room:
                return shown, gap
        if not optional:
            return shown, _GAPS[-1]
        shown.remove(optional.pop())


def _least(column: Column, width: int) -> int:
    return min(width, _PROSE_MIN) if column.is_prose else width


def _narrow_prose(columns: Sequence[Column], widths: Sequence[int], room: int) -> list[int]:
    """Give prose what the other columns leave."""
    taken = sum(width for each, width in zip(columns, widths, strict=True) if not each.is_prose)
    left = max(room - taken, _PROSE_MIN)
    return [
        min(width, left) if each.is_prose else width
        for each, width in zip(columns, widths, strict=True)
    ]


def _lines(
    row: Sequence[Text], columns: Sequence[Column], widths: Sequence[int], gap: int, out: Console
) -> list[Text]:
    """Return a row's line, or its lines where prose is broken."""
    parts = [
        cell.wrap(out, width) if each.is_prose and cell.cell_len > width else [cell]
        for cell, each, width in zip(row, columns, widths, strict=True)
    ]
    lines = []
    for number in range(max(len(part) for part in parts)):
        line = Text()
        for part, each, width in zip(parts, columns, widths, strict=True):
            cell = part[number].copy() if number < len(part) else Text()
            if each.is_prose:
                # Wrapped lines end with the blank at which they were broken.
                cell.rstrip()
            blank = " " * (width - cell.cell_len)
            line.append_text(Text(blank) + cell if each.is_right else cell + Text(blank))
            line.append(" " * gap)
        line.rstrip()
        lines.append(line)
    return lines


def _text(cell: Cell) -> Text:
    return Text(cell) if isinstance(cell, str) else cell
