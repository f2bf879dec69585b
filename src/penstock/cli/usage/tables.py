"""Prints usage as tables: rows with a bar, a session's turns, a request's attempts."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from penstock.cli.output import console, error_console
from penstock.cli.usage.figures import NOTHING, bar, dollars, milliseconds, percent, short
from penstock.wire.resources.usage import (
    AttemptAnswer,
    RequestAnswer,
    SessionAnswer,
    UsageAnswer,
    UsageRow,
)

# With this bar a table by account, whose ids have 32 characters, just fits into 80 columns.
_BAR = 6
_LABEL_WIDTH_MIN = 12


def print_usage(answer: UsageAnswer) -> None:
    """Print a table of the rows, and lines of refusals and savings below it."""
    console().print(usage_table(answer))
    refused: dict[str, int] = {}
    for row in answer.rows:
        for reason, count in (row.refusals or {}).items():
            refused[reason] = refused.get(reason, 0) + count
    if refused:
        counts = ", ".join(f"{short(count)} {reason}" for reason, count in sorted(refused.items()))
        console().print(Text(f"refused: {counts}"))
    saved = sum(row.saved_nanousd for row in answer.rows)
    if saved:
        console().print(Text(f"saved by caching: {dollars(saved)}"))
    _say_more(answer.has_more)


def usage_table(answer: UsageAnswer) -> Table:
    """Return the table; its bars show the cost, or the tokens if nothing has a cost."""
    has_retries = any(row.retried for row in answer.rows)
    table = _table()
    if answer.by:
        table.add_column("start", no_wrap=True)
    for title in answer.group_by:
        table.add_column(title, overflow="fold", min_width=_LABEL_WIDTH_MIN)
    titles = [
        "req",
        "tokens",
        "hit",
        "p50",
        "p95",
        *(["retry"] if has_retries else []),
        "cost",
    ]
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True, min_width=_BAR)
    measures = _measures(answer.rows)
    for row, measure in zip(answer.rows, measures, strict=True):
        start = [] if row.start is None else [f"{row.start:%m-%d %Hh}"]
        retry = [percent(row.retry_success)] if has_retries else []
        table.add_row(
            *map(Text, (*start, *(row.labels[name] or NOTHING for name in answer.group_by))),
            short(row.requests),
            short(row.prompt_tokens + row.output_tokens),
            percent(row.hit_ratio),
            milliseconds(row.first_token_p50_ms),
            milliseconds(row.first_token_p95_ms),
            *retry,
            dollars(row.cost_nanousd),
            Text(bar(measure, max(measures), _BAR), style="cyan"),
        )
    return table


def print_session(answer: SessionAnswer) -> None:
    """Print the turns, each with a bar of its tokens, and how the prompt grows."""
    table = _table()
    table.add_column("turn", justify="right")
    table.add_column("asked", no_wrap=True)
    for title in ("prompt", "cached", "output", "first token", "cost"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("outcome", no_wrap=True)
    table.add_column("", no_wrap=True)
    most = max((turn.tokens or 0 for turn in answer.turns), default=0)
    for turn in answer.turns:
        table.add_row(
            str(turn.number),
            f"{turn.asked_at:%m-%d %H:%M:%S}",
            _count(turn.prompt_tokens),
            _count(turn.cached_tokens),
            _count(turn.output_tokens),
            milliseconds(turn.first_token_ms),
            dollars(turn.cost_nanousd),
            turn.outcome,
            Text(bar(turn.tokens or 0, most, _BAR), style="cyan"),
        )
    console().print(table)
    growth, each = answer.prompt_growth_tokens, answer.tokens_per_turn
    facts = [
        f"{answer.turn_count} turns",
        f"{NOTHING if each is None else f'{each:.0f}'} tokens a turn",
        f"prompt grows by {NOTHING if growth is None else f'{growth:+.1f}'} tokens a turn",
        f"hit ratio {percent(answer.hit_ratio)}",
        f"${answer.cost_usd}",
    ]
    console().print(", ".join(facts))
    _say_more(answer.has_more)


def print_request(answer: RequestAnswer) -> None:
    """Print the columns with a value of each attempt, and its charge step by step."""
    out = console()
    out.print(Text(f"request {answer.id}: {_attempts(len(answer.attempts))}, ${answer.cost_usd}"))
    for attempt in answer.attempts:
        table = _table()
        table.add_column(f"attempt {attempt.attempt}", no_wrap=True)
        table.add_column("", overflow="fold")
        for name, value in _facts(attempt):
            table.add_row(name, Text(value))
        out.print()
        out.print(table)


def _facts(attempt: AttemptAnswer) -> Iterable[tuple[str, str]]:
    derived = {"day", "request", "attempt", "calculation"}
    for name in attempt.__struct_fields__:
        value = getattr(attempt, name)
        if name not in derived and value not in ("", None):
            yield name, str(value)
    yield "calculation", attempt.calculation.text


def _measures(rows: list[UsageRow]) -> list[int]:
    costs = [row.cost_nanousd for row in rows]
    return costs if any(costs) else [row.prompt_tokens + row.output_tokens for row in rows]


def _count(tokens: int | None) -> str:
    return NOTHING if tokens is None else f"{tokens:,}"


def _table() -> Table:
    return Table(box=None, header_style="bold", pad_edge=False, padding=(0, 1, 0, 0))


def _say_more(has_more: bool) -> None:
    if has_more:
        error_console().print("[dim]there are more: raise --limit, or shorten the period[/]")


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
