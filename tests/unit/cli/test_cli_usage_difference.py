"""`penstock usage diff` as people see it: 80 columns on a terminal, every part in a pipe."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from rich.console import Console

from penstock.cli.usage import difference_table
from penstock.console.formats import signed_amount
from penstock.metering.prices import usd
from penstock.wire.resources.usage_difference import ChangeParts, DifferenceAnswer, DifferenceRow

WEEK = timedelta(days=7)
SINCE = datetime(2026, 11, 9, tzinfo=UTC)
DOLLAR = 10**9
NAMES = {"1" * 32: "team-a"}


def row(labels: dict[str, str], before: float, why: str, **parts: float) -> DifferenceRow:
    sizes = ChangeParts(**{name: round(size * DOLLAR) for name, size in parts.items()})
    first = round(before * DOLLAR)
    change = sum(round(size * DOLLAR) for size in parts.values())
    return DifferenceRow(
        labels=labels,
        is_other=not labels,
        before_nanousd=first,
        before_usd=usd(first),
        after_nanousd=first + change,
        after_usd=usd(first + change),
        change_nanousd=change,
        change_usd=usd(change),
        parts_nanousd=sizes,
        why=why,
    )


def answer(
    *rows: DifferenceRow, total: DifferenceRow | None = None, **facts: Any
) -> DifferenceAnswer:
    made: dict[str, Any] = {
        "since": SINCE, "until": SINCE + WEEK, "against_since": SINCE - WEEK,
        "against_until": SINCE, "by": ("account", "workflow"), "unpriced_models": [],
        "dearer_models": [],
    }  # fmt: skip
    return DifferenceAnswer(total=total or row({}, 0, ""), rows=list(rows), **(made | facts))


ROWS = (
    row(
        {"account": "1" * 32, "workflow": "nightly"}, 120.0,
        "hit ratio 91 → 52 %; prompts +2,310 tokens a request",
        volume=2.1, retries=0.4, prompts=96.0, cache=190.2, answers=1.5,
    ),
    row({"account": "2" * 8, "workflow": ""}, 610.1, "requests 900 → 950", volume=22.0),
    row({}, 1.0, "answers -3 tokens a request", answers=-0.25),
)  # fmt: skip
TOTAL = row({}, 731.1, "", volume=24.1, retries=0.4, prompts=96.0, cache=190.2, answers=1.25)


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Prints an answer to a terminal of a width, or to a pipe; returns its output and errors."""

    def run(shown: DifferenceAnswer, width: int | None) -> tuple[list[str], str]:
        out, err = io.StringIO(), io.StringIO()
        is_terminal = width is not None
        made: dict[str, Any] = {
            "force_terminal": is_terminal,
            "width": width or 1000,
            "color_system": None,
        }
        monkeypatch.setattr(difference_table, "console", lambda: Console(file=out, **made))
        monkeypatch.setattr(difference_table, "error_console", lambda: Console(file=err, **made))
        difference_table.print_difference(shown, NAMES)
        return out.getvalue().splitlines(), err.getvalue()

    return run


def test_eighty_columns_hold_the_parts_that_matter(printed: Any) -> None:
    lines, errors = printed(answer(*ROWS, total=TOTAL), 80)
    assert max(map(len, lines)) <= 80
    assert lines[0] == "2026-11-09 to 2026-11-15 against 2026-11-02 to 2026-11-08, UTC"
    assert " ".join(" ".join(lines[1:3]).split()) == (
        "$731.10 → $1,043.05 (+311.95): volume +24.10, retries +0.40, models 0, prompts +96.00,"
        " cache +190.20, answers +1.25, price 0, uncharged 0"
    )
    # Largest first, and nothing that is 0 everywhere.
    assert lines[3].split() == [
        *("account", "workflow", "from", "to", "cache", "prompts", "volume", "answers", "retries"),
    ]
    assert lines[4].split() == [
        *("team-a", "nightly", "$120.00", "$410.20", "+190.20", "+96.00", "+2.10", "+1.50"),
        "+0.40",
    ]
    assert lines[5] == "  hit ratio 91 → 52 %; prompts +2,310 tokens a request"
    assert lines[6].split()[:3] == ["22222222", "none", "$610.10"]
    assert lines[8].split()[0] == "other"
    assert errors == ""


def test_pipe_gets_every_part_and_the_sentence_in_one_line(printed: Any) -> None:
    lines, _ = printed(answer(*ROWS, total=TOTAL), None)
    assert len(lines) == 2 + 1 + len(ROWS)
    head = lines[2].split()
    assert head[4:] == [*ChangeParts.__struct_fields__, "why"]
    assert lines[3].endswith("  hit ratio 91 → 52 %; prompts +2,310 tokens a request")


def test_parts_without_room_are_named(printed: Any) -> None:
    lines, errors = printed(answer(*ROWS, total=TOTAL), 50)
    assert max(map(len, lines)) <= 50
    head = next(line for line in lines if line.startswith("account"))
    assert "cache" in head
    assert "retries" not in head
    assert errors.startswith("no room for: ")


def test_small_amounts_are_in_millionths(printed: Any) -> None:
    small = row({"account": "a", "workflow": "w"}, 0.001, "requests 1 → 2", volume=0.00025)
    lines, _ = printed(answer(small, total=small), 80)
    assert "volume +0.000250" in lines[1]
    assert signed_amount(-(10**12), is_fine=False) == "-1,000.00"
    assert signed_amount(4_999_999, is_fine=False) == "0"
    assert signed_amount(-1, is_fine=True) == "0"


def test_nothing_and_odd_models_are_said(printed: Any) -> None:
    shown = answer(since=SINCE + timedelta(hours=3), against_until=SINCE - timedelta(days=6))
    lines, _ = printed(shown, 80)
    assert lines[0].startswith("2026-11-09 03h to 2026-11-16 00h against 2026-11-02,")
    assert lines[-1] == "Nothing was used in either of them."
    _, errors = printed(answer(ROWS[1], unpriced_models=["@cf/x/y"], dearer_models=["m"]), 80)
    assert "@cf/x/y: not in the catalogue" in errors
    assert "m: charged more than the catalogue's prices" in errors
