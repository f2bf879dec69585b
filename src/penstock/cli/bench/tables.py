"""Renders a run: the closing table, and a histogram of first tokens. Pure."""

import math
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.cli.bench.figures import Report, Spread
from penstock.console.formats import NOTHING, bar, dollars, percent, short

_BAR: Final = 40
_ROWS: Final = 10
# Above this, measured times may include the benchmark's own delay.
_LATE_MS: Final = 10.0
_ERRORS_SHOWN: Final = 5


def closing(report: Report, first_tokens_ms: Sequence[float]) -> RenderableType:
    """Return everything that is printed at the end."""
    parts: list[RenderableType] = [_times(report), Text(), _facts(report)]
    if first_tokens_ms:
        parts += [Text(), Text("First tokens", style="bold"), histogram(first_tokens_ms)]
    notes = list(_notes(report))
    if notes:
        parts += [Text(), *(Text(note, style="yellow") for note in notes)]
    return Group(*parts)


def milliseconds(value: float | None) -> str:
    """Format a time for a narrow column, with digits after the point where they matter."""
    if value is None:
        return NOTHING
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    if value >= 1_000:
        return f"{value / 1000:.2f} s"
    return f"{value:.1f} ms" if value < 100 else f"{value:.0f} ms"


def histogram(values_ms: Sequence[float]) -> Table:
    """Return a histogram of first-token times, whose spans grow by a constant factor."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True, style="cyan")
    table.add_column(justify="right", no_wrap=True)
    spans = spans_of(values_ms)
    most = max(count for _, _, count in spans)
    for low, high, count in spans:
        name = f"{milliseconds(low)} to {milliseconds(high)}"
        table.add_row(name, bar(count, most, _BAR), str(count) if count else "")
    return table


def spans_of(values_ms: Sequence[float]) -> list[tuple[float, float, int]]:
    """Return (from, to, count) of each span; each is longer than the last by one factor."""
    low, high = max(min(values_ms), 0.1), max(0.1, *values_ms)
    rows = _ROWS if high / low > 1.05 else 1
    # A little more than the largest value, so that rounding leaves no value out.
    factor = (high * 1.0001 / low) ** (1 / rows)
    counts = [0] * rows
    for value in values_ms:
        place = int(math.log(max(value, low) / low) / math.log(factor)) if factor > 1 else 0
        counts[min(place, rows - 1)] += 1
    return [(low * factor**i, low * factor ** (i + 1), n) for i, n in enumerate(counts)]


def _times(report: Report) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("", style="bold")
    for title in ("p50", "p95", "p99"):
        table.add_column(title, justify="right", min_width=9, no_wrap=True)
    rows = {
        "First token": report.first_token_ms,
        "Per token": report.per_token_ms,
        "Whole answer": report.answer_ms,
    }
    for name, each in rows.items():
        table.add_row(name, *_cells(each))
    return table


def _cells(each: Spread) -> tuple[str, ...]:
    return tuple(milliseconds(value) for value in (each.p50, each.p95, each.p99))


def _facts(report: Report) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("Requests", _requests(report))
    if report.ok:
        # Without an answer there are no tokens, cache hits and costs.
        table.add_row("Tokens", _tokens(report))
        table.add_row("Cached", _cached(report))
        table.add_row("Cost", _cost(report))
    table.add_row("Errors", _errors(report))
    return table


def _requests(report: Report) -> str:
    stopped = f", {report.stopped} stopped" if report.stopped else ""
    return (
        f"{report.ok} of {report.requests} answered{stopped} in {report.seconds:.1f} s,"
        f" {report.requests_per_second:.1f} a second"
    )


def _tokens(report: Report) -> str:
    if report.prompt_tokens is None or report.output_tokens is None:
        return "unknown: the server says nothing of usage"
    each = report.output_tokens_per_second or 0.0
    prompt, output = short(report.prompt_tokens), short(report.output_tokens)
    return f"{prompt} in, {output} out, {each:.0f} out a second"


def _cached(report: Report) -> str:
    if report.hit_ratio is None:
        return "unknown: the server does not say"
    return f"{percent(report.hit_ratio)} of the prompts' tokens"


def _cost(report: Report) -> str:
    if report.cost_nanousd is None:
        return "unknown: pass --price-input, --price-cached and --price-output"
    where = "by the prices given" if report.cost_from == "prices" else "as the server says"
    missing = f"; of {report.cost_unknown} answers unknown" if report.cost_unknown else ""
    return f"{dollars(report.cost_nanousd)}, {where}{missing}"


def _errors(report: Report) -> Text:
    if not report.errors:
        return Text("none")
    shown = [f"{code}: {count}" for code, count in list(report.errors.items())[:_ERRORS_SHOWN]]
    more = len(report.errors) - len(shown)
    return Text("\n".join([*shown, f"and {more} other kinds"] if more else shown), style="red")


def busy_note(report: Report) -> str | None:
    """Return a warning if the benchmark's own event loop was late, else None."""
    late = report.loop_late_p99_ms
    if late < _LATE_MS:
        return None
    return (
        f"This machine was busy: times may be {late:.0f} ms too long (our own loop's delay, p99)."
    )


def _notes(report: Report) -> Iterator[str]:
    busy = busy_note(report)
    if busy is not None:
        yield busy
    if report.started_late_seconds:
        yield (
            f"Some began up to {report.started_late_seconds:.1f} s after their time: all places"
            " were taken. Raise --concurrency to hold the rate."
        )
