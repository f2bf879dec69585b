"""Prints usage as tables: rows with a bar, a session's turns, a request's attempts."""

from collections.abc import Iterable, Mapping

from rich.text import Text

from penstock.cli.output import console, error_console, print_table
from penstock.cli.table import Cell, Column, Columns
from penstock.cli.usage.charge import charge_line
from penstock.console.formats import NOTHING, bar, dollars, last_part, milliseconds, percent, short
from penstock.wire.resources.usage import (
    AttemptAnswer,
    RequestAnswer,
    SessionAnswer,
    Turn,
    UsageAnswer,
    UsageRow,
)

_BAR = 6
_OPTIONAL = ("hit", "first token p50", "p95")
# Columns of the ledger that the heading and the line of the charge say in other words.
_IN_OTHER_WORDS = frozenset(
    {
        *("day", "request", "attempt", "calculation", "multiplier_bp", "charge_nanousd"),
        *("input_nanousd_per_mtok", "cached_input_nanousd_per_mtok", "output_nanousd_per_mtok"),
        "charge_usd",
    }
)
_TURN_COLUMNS: Columns = (
    *(Column("turn", is_right=True), Column("asked")),
    *(Column(title, is_right=True) for title in ("prompt", "cached", "output")),
    *(Column(title, is_right=True) for title in ("first token", "cost")),
    "outcome",
    *(Column(title, is_optional=True) for title in ("replica", "what happened", "")),
)


def print_usage(answer: UsageAnswer, names: Mapping[str, str]) -> None:
    """Print a table of the rows, and lines of refusals and savings below it."""
    print_table(*usage_table(answer, names))
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


def usage_table(
    answer: UsageAnswer, names: Mapping[str, str]
) -> tuple[list[Column], list[list[Cell]]]:
    """Return columns and rows; the bars show the cost, or the tokens if nothing has a cost.

    `names` are those of accounts, by id.
    """
    has_retries = any(row.retried for row in answer.rows)
    has_failures = any(row.failed for row in answer.rows)
    measures = _measures(answer.rows)
    columns = [
        *([Column("start")] if answer.by else []),
        *(Column(title) for title in answer.group_by),
        *(Column(title, is_right=True) for title in ("req", "tokens")),
        *([Column("failed", is_right=True)] if has_failures else []),
        *(Column(title, is_right=True, is_optional=True) for title in _OPTIONAL),
        *([Column("retry", is_right=True, is_optional=True)] if has_retries else []),
        Column("cost", is_right=True),
        Column("", is_optional=True),
    ]
    rows: list[list[Cell]] = []
    for row, measure in zip(answer.rows, measures, strict=True):
        cells: list[Cell] = [] if row.start is None else [f"{row.start:%m-%d %Hh}"]
        cells += [_label(name, row.labels[name], names) for name in answer.group_by]
        cells += [short(row.requests), short(row.prompt_tokens + row.output_tokens)]
        cells += [short(row.failed)] if has_failures else []
        cells.append(percent(row.hit_ratio))
        cells += map(milliseconds, (row.first_token_p50_ms, row.first_token_p95_ms))
        cells += [percent(row.retry_success)] if has_retries else []
        cells += [dollars(row.cost_nanousd), Text(bar(measure, max(measures), _BAR), style="cyan")]
        rows.append(cells)
    return columns, rows


def _what_happened(turn: Turn) -> str:
    moved = f"moved: {turn.session_moved}" if turn.session_moved else ""
    broken = f"cache break: {turn.cache_break}" if turn.cache_break else ""
    return ", ".join(filter(None, (moved, broken)))


def print_session(answer: SessionAnswer) -> None:
    """Print the turns, each with a bar of its tokens, and how the prompt grows."""
    most = max((turn.tokens or 0 for turn in answer.turns), default=0)
    rows = [
        (
            str(turn.number),
            f"{turn.asked_at:%m-%d %H:%M:%S}",
            _count(turn.prompt_tokens),
            _count(turn.cached_tokens),
            _count(turn.output_tokens),
            milliseconds(turn.first_token_ms),
            dollars(turn.cost_nanousd),
            turn.outcome,
            turn.replica[-8:],
            _what_happened(turn),
            Text(bar(turn.tokens or 0, most, _BAR), style="cyan"),
        )
        for turn in answer.turns
    ]
    print_table(_TURN_COLUMNS, rows)
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
        columns = (f"attempt {attempt.attempt}", Column("", is_prose=True))
        out.print()
        print_table(columns, _facts(attempt))


def _facts(attempt: AttemptAnswer) -> Iterable[tuple[str, str]]:
    for name in attempt.__struct_fields__:
        value = getattr(attempt, name)
        if name not in _IN_OTHER_WORDS and value not in ("", None):
            yield name, str(value)
    yield "charge", charge_line(attempt)


def _label(name: str, value: str, accounts: Mapping[str, str]) -> str:
    if name == "account":
        value = accounts.get(value, value)
    return (last_part(value) if name == "model" else value) or NOTHING


def _measures(rows: list[UsageRow]) -> list[int]:
    costs = [row.cost_nanousd for row in rows]
    return costs if any(costs) else [row.prompt_tokens + row.output_tokens for row in rows]


def _count(tokens: int | None) -> str:
    return NOTHING if tokens is None else f"{tokens:,}"


def _say_more(has_more: bool) -> None:
    if has_more:
        error_console().print("[dim]there are more: raise --limit, or shorten the period[/]")


def _attempts(count: int) -> str:
    return "1 attempt" if count == 1 else f"{count} attempts"
