"""Draws charts as SVG: no script, no inline style, and a name that screen readers say. Pure.

Colours are classes of console.css, so that light, dark and print have their own. A chart with axes
stands beside a table of the same numbers; a line within a table repeats what its row says.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from markupsafe import Markup, escape

from penstock.console.texts import printable, text

_LINE: Final = (96, 20)
_CHART: Final = (720, 180)
_LEFT, _BOTTOM, _TOP = 46, 22, 10


class Series(NamedTuple):
    """One line of a chart. A value that is None is a gap."""

    name: str
    values: Sequence[float | None]


class Bar(NamedTuple):
    """One bar, made of parts that stand on each other, with what it is said to be."""

    title: str
    parts: Sequence[float]
    link: str = ""
    mark: str = ""


class WaterfallStep(NamedTuple):
    """One step of a waterfall: what it is called, its size, and the size in words."""

    title: str
    size: float
    label: str = ""


class TimePart(NamedTuple):
    """A part of a time, with its share of the whole."""

    title: str
    share: float


def line(values: Sequence[float | None], top: float | None = None, name: str = "") -> Markup:
    """Return a small line for a table's cell."""
    width, height = _LINE
    most = top if top is not None else max((each or 0.0 for each in values), default=0.0)
    paths = _paths(values, (0.0, float(width)), (1.5, height - 1.5), most or 1.0)
    body = "".join(f'<path class="line" d="{path}"/>' for path in paths)
    # Joined, not formatted: a table has a line in each of its rows.
    return Markup(  # noqa: S704 - only the name is not ours
        f'<svg class="spark" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        f' role="img" aria-label="{escape(text(name or "trend"))}">{body}</svg>'
    )


def lines(
    name: str, series: Sequence[Series], starts: Sequence[str], unit: str = "", top: float = 0.0
) -> Markup:
    """Return a chart of lines over time; `starts` are the times of the points, in words."""
    width, height = _CHART
    most = top or max((each or 0.0 for one in series for each in one.values), default=0.0) or 1.0
    across, down = (float(_LEFT), width - 8.0), (float(_TOP), float(height - _BOTTOM))
    parts = [_grid(most, across, down, unit), _times(starts, across, height)]
    for number, one in enumerate(series):
        drawn = Markup('<path class="line s{}" d="{}"><title>{}</title></path>')
        parts += [
            drawn.format(number, path, text(one.name))
            for path in _paths(one.values, across, down, most)
        ]
    return _svg("chart", name, (width, height), parts)


def bars(name: str, given: Sequence[Bar], unit: str = "") -> Markup:
    """Return a chart of stacked bars, one for each entry; an entry may be a link."""
    width, height = _CHART
    most = max((sum(each.parts) for each in given), default=0.0) or 1.0
    across, down = (float(_LEFT), width - 8.0), (float(_TOP), float(height - _BOTTOM))
    step = (across[1] - across[0]) / max(1, len(given))
    parts = [_grid(most, across, down, unit)]
    for number, each in enumerate(given):
        left, bottom = across[0] + step * number, down[1]
        drawn = [Markup("<title>{}</title>").format(text(each.title))]
        for place, part in enumerate(each.parts):
            tall = (down[1] - down[0]) * part / most
            drawn.append(
                Markup(
                    '<rect class="b{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
                ).format(place, left + step * 0.1, bottom - tall, step * 0.8, tall)
            )
            bottom -= tall
        if each.mark:
            drawn.append(
                Markup('<text class="mark" x="{:.1f}" y="{:.1f}">{}</text>').format(
                    left + step / 2, max(float(_TOP), bottom - 3), text(each.mark)
                )
            )
        body = Markup("").join(drawn)
        if each.link:
            # The table beside it has the same links, which the keyboard reaches.
            body = Markup('<a href="{}" tabindex="-1" aria-label="{}">{}</a>').format(
                each.link, each.title, body
            )
        parts.append(Markup("<g>{}</g>").format(body))
    role = "group" if any(each.link for each in given) else "img"
    return _svg("chart", name, (width, height), parts, role)


def timeline(phases: Sequence[TimePart]) -> Markup:
    """Return one bar of a time's parts; the page lists their names below it."""
    width, height = _CHART[0], 18
    parts, at = [], 0.0
    for number, phase in enumerate(phases):
        wide = width * phase.share
        parts.append(
            Markup(
                '<g><title>{}</title><rect class="p{}" x="{:.1f}" y="0" width="{:.1f}"'
                ' height="{}"/></g>'
            ).format(text(phase.title), number, at, max(wide, 1.0), height)
        )
        at += wide
    name = ", ".join(phase.title for phase in phases)
    return _svg("timeline", name, (width, height), parts)


def steps(name: str, given: Sequence[WaterfallStep]) -> Markup:
    """Return a waterfall: the first value, changes that add up, and the last value."""
    width, height = _CHART
    levels, level = [], 0.0
    for number, (_, value, _) in enumerate(given):
        is_end = number in (0, len(given) - 1)
        below = 0.0 if is_end else level
        level = value if is_end else level + value
        levels.append((below, level))
    most = max((max(pair) for pair in levels), default=0.0) or 1.0
    step = (width - 16.0) / max(1, len(given))
    span = height - 2.0 * _BOTTOM
    parts = []
    for number, ((title, value, label), (low, high)) in enumerate(zip(given, levels, strict=True)):
        is_end = number in (0, len(given) - 1)
        kind = "end" if is_end else "up" if value > 0 else "down"
        upper, lower = max(low, high), min(low, high)
        at, top = 8.0 + step * number, _BOTTOM + span * (1 - upper / most)
        parts.append(
            Markup(
                '<g><rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
                '<text class="label middle" x="{:.1f}" y="{:.1f}">{}</text>'
                '<text class="axis middle" x="{:.1f}" y="{}">{}</text></g>'
            ).format(
                kind, at + step * 0.08, top, step * 0.84, max(1.0, span * (upper - lower) / most),
                at + step / 2, top - 5, label, at + step / 2, height - 6, text(title),
            )
        )  # fmt: skip
    return _svg("chart", name, (width, height), parts)


def _svg(
    kind: str, name: str, size: tuple[int, int], parts: Sequence[Markup], role: str = "img"
) -> Markup:
    return Markup('<svg class="{}" viewBox="0 0 {} {}" role="{}" aria-label="{}">{}</svg>').format(
        kind, *size, role, printable(name), Markup("").join(parts)
    )


def _paths(
    values: Sequence[float | None],
    across: tuple[float, float],
    down: tuple[float, float],
    most: float,
) -> list[str]:
    """Return a path for each run of points that have a value; a single point is a short dash."""
    step = (across[1] - across[0]) / max(1, len(values) - 1)
    runs: list[list[str]] = [[]]
    for number, value in enumerate(values):
        if value is None:
            runs.append([])
            continue
        left = across[0] + step * number
        high = down[1] - (down[1] - down[0]) * min(1.0, max(0.0, value) / most)
        runs[-1].append(f"{left:.1f} {high:.1f}")
    return [
        f"M{run[0]}L{'L'.join(run[1:])}" if len(run) > 1 else f"M{run[0]}h2" for run in runs if run
    ]


def _grid(most: float, across: tuple[float, float], down: tuple[float, float], unit: str) -> Markup:
    parts = []
    for share in (0.0, 0.5, 1.0):
        high = down[1] - (down[1] - down[0]) * share
        parts.append(
            Markup(
                '<line class="grid" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>'
                '<text class="axis end" x="{:.1f}" y="{:.1f}">{}{}</text>'
            ).format(across[0], high, across[1], high, across[0] - 4, high + 4,
                     _figure(most * share), unit)
        )  # fmt: skip
    return Markup("").join(parts)


def _times(starts: Sequence[str], across: tuple[float, float], height: int) -> Markup:
    if not starts:
        return Markup("")
    shown = sorted({0, len(starts) // 2, len(starts) - 1})
    step = (across[1] - across[0]) / max(1, len(starts) - 1)
    anchors = {0: "start", len(starts) - 1: "end"}
    return Markup("").join(
        Markup('<text class="axis {}" x="{:.1f}" y="{}">{}</text>').format(
            anchors.get(number, "middle"), across[0] + step * number, height - 6, starts[number]
        )
        for number in shown
    )


def _figure(value: float) -> str:
    if value >= 1000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2f}"
