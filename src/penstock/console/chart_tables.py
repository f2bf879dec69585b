"""Writes a chart's values as a table, for readers who do not see the chart. Pure.

It takes what `charts` draws, so that both have the same values.
"""

from collections.abc import Sequence

from markupsafe import Markup, escape

from penstock.console.charts import Series
from penstock.console.texts import text


def of_lines(name: str, series: Sequence[Series], starts: Sequence[str], unit: str = "") -> Markup:
    """Return a table with a row for each time and a column for each line; a gap is a dash."""
    heads = "".join(f'<th scope="col" class="n">{escape(text(one.name))}</th>' for one in series)
    rows = []
    for number, start in enumerate(starts):
        cells = "".join(f'<td class="n">{_cell(one.values, number, unit)}</td>' for one in series)
        rows.append(f'<tr><th scope="row">{escape(text(start))}</th>{cells}</tr>')
    table = (
        f'<table class="rows"><caption class="unseen">{escape(text(name))}</caption><thead><tr>'
        f'<th scope="col">Time</th>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )
    return Markup(table)  # noqa: S704 - each text in it is escaped above


def _cell(values: Sequence[float | None], number: int, unit: str) -> str:
    value = values[number] if number < len(values) else None
    return "\u2013" if value is None else f"{value:.0f}{escape(unit)}"
