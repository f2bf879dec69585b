"""Draws the README's two pictures from recorded figures, as `make docs` does. A test compares.

`docs/figures/demo.json` is what `penstock demo --json` wrote; `docs/figures/overhead.json` has the
medians of `make bench-overhead`. Both say when and where they were measured.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

Report = dict[str, Any]
FIGURES = Path(__file__).parent / "figures"
# Narrow, so that a phone shows it whole with readable letters.
_WIDTH = 480
_BAR_LEFT, _BAR_RIGHT = 110, 390
_STYLE = """<style>
@media (prefers-color-scheme: dark) { :root { --picture-ink: #e4ecf0; --picture-soft: #9fb3bd; --picture-line: #6f8995; --picture-key: #2aa6c9; } }
.p-text { font: 600 15px system-ui, sans-serif; fill: var(--picture-ink, #17242b); }
.p-small { font: 400 13px system-ui, sans-serif; fill: var(--picture-soft, #4d626d); }
.p-right { text-anchor: end; }
.p-other { fill: var(--picture-line, #7b929d); }
.p-ours { fill: var(--picture-key, #0b7fa3); }
</style>"""  # noqa: E501 - as the other pictures have it


class Bar(NamedTuple):
    """One bar: its name, its length as a share of the longest, its label, and whose it is."""

    name: str
    share: float
    label: str
    is_ours: bool = False


def pictures() -> dict[str, str]:
    """Every picture by its file name in docs/assets."""
    return {"before-after.svg": before_after(), "overhead.svg": overhead()}


def before_after() -> str:
    """Twenty agent sessions on the same engines: round robin, and Penstock."""
    acts = {row["act"]: row["report"] for row in _read("demo.json")["acts"]}
    before, after = acts["round_robin"], acts["affinity"]
    groups = [
        _pair("First token, median", before, after, _first_token_ms, "ms"),
        _pair("Prompt tokens from cache", before, after, _hit_percent, "%"),
        _pair("Cost of the same work", before, after, _cents, "¢"),
    ]
    title = "Twenty agent sessions on the same engines: round robin, and Penstock with affinity"
    return _drawing(title, groups)


def overhead() -> str:
    """The CPU of one small request, beside others that stand in the same place."""
    found = _read("overhead.json")["small_request_cpu_us"]
    longest = max(found.values())
    bars = [
        Bar(name, value / longest, f"{value:,.0f} µs", name == "Penstock")
        for name, value in sorted(found.items(), key=lambda item: item[1])
    ]
    title = "CPU of a gateway for one small request, with accounts, limits and a ledger in Penstock"
    return _drawing(title, [("CPU for one small request", bars)])


def _pair(
    name: str, before: Report, after: Report, value: Callable[[Report], float], unit: str
) -> tuple[str, list[Bar]]:
    was, now = value(before), value(after)
    longest = max(was, now)
    return name, [
        Bar("round robin", was / longest, f"{was:,.0f} {unit}"),
        Bar("Penstock", now / longest, f"{now:,.0f} {unit}", is_ours=True),
    ]


def _first_token_ms(report: Report) -> float:
    return float(report["first_token_ms"]["p50"])


def _hit_percent(report: Report) -> float:
    return 100 * float(report["hit_ratio"])


def _cents(report: Report) -> float:
    return float(report["cost_nanousd"]) / 10**7


def _drawing(title: str, groups: list[tuple[str, list[Bar]]]) -> str:
    rows: list[str] = []
    y = 8
    for name, bars in groups:
        rows.append(f'<text class="p-text" x="8" y="{y + 16}">{name}</text>')
        y += 30
        for bar in bars:
            end = _BAR_LEFT - 10
            length = max(2, round(bar.share * (_BAR_RIGHT - _BAR_LEFT)))
            kind = "p-ours" if bar.is_ours else "p-other"
            at = _BAR_LEFT + length + 8
            rows += [
                f'<text class="p-small p-right" x="{end}" y="{y + 15}">{bar.name}</text>',
                f'<rect class="{kind}" x="{_BAR_LEFT}" y="{y}" width="{length}" height="20"/>',
                f'<text class="p-small" x="{at}" y="{y + 15}">{bar.label}</text>',
            ]
            y += 28
        y += 14
    size = f'viewBox="0 0 {_WIDTH} {y}" role="img"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<title>{title}</title>\n{_STYLE}\n'
    return head + "\n".join(rows) + "\n</svg>\n"


def _read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode((FIGURES / name).read_bytes())
    return found
