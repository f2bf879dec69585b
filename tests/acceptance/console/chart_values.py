"""Compares the charts of an open page with the tables beside them, as the browser draws both."""

import re
from typing import Any, Final

from tests.acceptance.site_browser import Browser

# The plot of a chart with axes: the height at which 0 is, and how high it is.
_ZERO: Final = 158.0
_TALL: Final = 148.0
_READ: Final = """[...document.querySelectorAll('main svg.chart, main svg.timeline')].map(chart => {
    const numbers = (each, ...names) => names.map(name => Number(each.getAttribute(name)));
    return {
        name: chart.getAttribute('aria-label'),
        lines: [...chart.querySelectorAll('path.line')].map(each =>
            [each.textContent, each.getAttribute('d')]),
        bars: [...chart.querySelectorAll('rect')].map(each => numbers(each, 'height')[0]),
        isStacked: !!chart.querySelector('rect.b0'),
        labels: [...chart.querySelectorAll('text.label')].map(each => each.textContent),
        phases: [...chart.parentElement.querySelectorAll('svg.timeline title')]
            .map(each => each.textContent),
        tables: [...(chart.closest('section')?.querySelectorAll('table') ?? [])].map(table =>
            [...table.rows].map(row => [...row.cells].map(cell => cell.textContent.trim()))),
    };
})"""


def check_charts(browser: Browser) -> int:
    """Check that each chart has a name and the values that it draws in a table; return how many."""
    charts: list[dict[str, Any]] = browser.evaluate(_READ)
    for chart in charts:
        assert chart["name"], chart
        assert chart["tables"], f"{chart['name']}: no table in its section"
        head, *rows = chart["tables"][0]
        if chart["lines"]:
            _check_lines(chart, head, rows)
        elif chart["isStacked"]:
            _check_stacks(chart, head, rows)
        elif chart["labels"]:
            _check_steps(chart, rows)
        else:
            _check_phases(chart, rows)
    return len(charts)


def _check_lines(chart: dict[str, Any], head: list[str], rows: list[list[str]]) -> None:
    """Compare the points of each line with its column, from the first time to the last."""
    drawn: dict[str, list[float]] = {}
    for name, path in chart["lines"]:
        points = re.findall(r"[ML]\S+ ([\d.]+)", path)
        drawn.setdefault(name, []).extend((_ZERO - float(each)) / _TALL * 100 for each in points)
    assert set(drawn) == set(head[1:])
    for name, values in drawn.items():
        cells = [number(row[head.index(name)]) for row in rows]
        known = [each for each in cells if each is not None]
        assert len(known) == len(values), (chart["name"], name)
        for said, value in zip(known, values, strict=True):
            assert abs(said - value) <= 1, (chart["name"], name, said, value)


def _check_stacks(chart: dict[str, Any], head: list[str], rows: list[list[str]]) -> None:
    """Compare the parts of each bar with its row."""
    columns = [head.index(name) for name in ("Cached", "Read anew", "Output tokens")]
    said = [[number(row[column]) or 0.0 for column in columns] for row in rows]
    most = max(map(sum, said))
    expected = [part / most * _TALL for parts in said for part in parts]
    assert len(chart["bars"]) == len(expected), chart["name"]
    for value, drawn in zip(expected, chart["bars"], strict=True):
        assert abs(value - drawn) <= 0.2, (chart["name"], value, drawn)


def _check_steps(chart: dict[str, Any], rows: list[list[str]]) -> None:
    """Find the amount of each step in the table's last row, which is that of the sums."""
    before, *changes, now = chart["labels"]
    assert len(chart["bars"]) == len(chart["labels"])
    sums = [each for each in rows[-1][1:] if each]
    assert sums == [before, now, *changes], (chart["name"], sums)


def _check_phases(chart: dict[str, Any], rows: list[list[str]]) -> None:
    """Find each part of an attempt's time in a row of the attempts."""
    assert len(chart["bars"]) == len(chart["phases"])
    times = {re.sub(r"^\D+", "", each) for each in chart["phases"]}
    assert any(times <= set(row) for row in rows), (chart["name"], times)


def number(cell: str) -> float | None:
    """A cell's number without its unit; None for a dash."""
    found = re.match(r"[\d,.]+", cell)
    return float(found[0].replace(",", "")) if found else None
