"""`penstock usage` as people see it: tables that fit, numbers that can be read, clear refusals."""

import csv
import io
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console
from tests.unit.cli.conftest import Penstock

from penstock.cli.table import lay_out
from penstock.cli.usage.lines import print_session_csv, print_usage_csv
from penstock.cli.usage.tables import print_session, print_usage, usage_table
from penstock.console.formats import bar, dollars, milliseconds, percent, short
from penstock.errors import InvalidRequest
from penstock.metering.reports.export_file import opened_file
from penstock.wire.resources.usage import SessionAnswer, Turn, UsageAnswer, UsageRow

AT = datetime(2026, 11, 10, 12, tzinfo=UTC)
EMPTY: dict[str, Any] = {
    **dict.fromkeys(UsageRow.__struct_fields__, 0),
    "start": None,
    "labels": {},
    "hit_ratio": None,
    "first_token_p50_ms": None,
    "first_token_p95_ms": None,
    "retry_success": None,
    "refusals": None,
    "cost_usd": "0.000000000",
    "saved_usd": "0.000000000",
}


def row(**facts: Any) -> UsageRow:
    return UsageRow(**(EMPTY | facts))


def answer(*rows: UsageRow, by: str | None = None, group_by: tuple[str, ...] = ()) -> UsageAnswer:
    return UsageAnswer(
        since=AT, until=AT, by=by, group_by=group_by, rows=list(rows), has_more=False
    )


def turn(number: int, tokens: int | None) -> Turn:
    return Turn(
        number=number,
        request="r",
        asked_at=AT,
        model="m",
        outcome="ok",
        prompt_tokens=tokens,
        cached_tokens=None,
        output_tokens=tokens,
        tokens=None if tokens is None else 2 * tokens,
        first_token_ms=12.0,
        duration_ms=1.0,
        cost_nanousd=1,
        cost_usd="0.000000001",
        replica="r",
        session_moved="",
        cache_break="",
    )


def session(*turns: Turn) -> SessionAnswer:
    return SessionAnswer(
        account="a",
        session="s",
        since=AT,
        until=AT,
        turn_count=len(turns),
        tokens_per_turn=20.0,
        prompt_growth_tokens=10.0,
        hit_ratio=0.5,
        cost_nanousd=1,
        cost_usd="0.000000001",
        turns=list(turns),
        has_more=True,
    )


FULL = answer(
    row(start=AT, labels={"account": "0" * 32}, requests=123_456, prompt_tokens=9_876_543_210,
        hit_ratio=0.876, first_token_p50_ms=123.4, first_token_p95_ms=12_345.6, retried=3,
        retry_success=0.5, cost_nanousd=123_456_789_000),
    row(start=AT, labels={"account": ""}, cost_nanousd=1_234_500),
    by="hour", group_by=("account",),
)  # fmt: skip


def lines_of(shown: UsageAnswer) -> list[str]:
    """What a terminal of 80 columns shows."""
    out = Console(file=io.StringIO(), width=80, force_terminal=True)
    return [line.plain for line in lay_out(*usage_table(shown, {}), out).lines]


def test_fullest_table_fits_in_eighty_columns() -> None:
    lines = lines_of(FULL)
    assert max(map(len, lines)) <= 80
    for figure in ("11-10 12h", "0" * 32, "123.5k", "9.9G", "$123.46"):
        assert figure in lines[1]
    assert "$0.001235" in lines[-1]


def test_columns_are_left_out_from_the_right_until_the_table_fits() -> None:
    of_workflow = msgspec.structs.replace(FULL, group_by=("workflow",), rows=[
        msgspec.structs.replace(each, labels={"workflow": "nightly"}) for each in FULL.rows
    ])  # fmt: skip
    lines = lines_of(of_workflow)
    assert lines[0].split("  ")[0] == "start"
    for figure in ("nightly", "88%", "123ms", "12.3s", "50%", "$123.46"):
        assert figure in lines[1]
    assert "first token p50" in lines[0]


def test_failed_requests_are_shown_where_there_are_some() -> None:
    assert "failed" not in lines_of(answer(row()))[0]
    head, line = lines_of(answer(row(requests=76, failed=9)))
    assert "failed" in head
    assert " 9 " in line


def test_account_ids_are_not_cut_in_eighty_columns() -> None:
    dear = row(labels={"account": "0" * 32}, requests=123_456, prompt_tokens=9_876_543_210,
               hit_ratio=1.0, first_token_p95_ms=1234.5, cost_nanousd=1_234_500)  # fmt: skip
    lines = lines_of(answer(dear, group_by=("account",)))
    assert len(lines) == 2
    assert "0" * 32 in lines[1]


def test_bars_are_of_the_cost_or_of_the_tokens_where_nothing_costs() -> None:
    rows = (row(prompt_tokens=100), row(prompt_tokens=50), row())
    assert [line.count("█") for line in lines_of(answer(*rows))[1:]] == [6, 3, 0]


def test_refusals_and_savings_stand_below_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (
        row(refusals={"rate_limited": 2}, saved_nanousd=2_500_000_000),
        row(refusals={"rate_limited": 1, "budget_spent": 1}),
    )
    print_usage(msgspec.structs.replace(answer(*rows), has_more=True), {})
    said = capsys.readouterr()
    assert "refused: 1 budget_spent, 3 rate_limited" in said.out
    assert "saved by caching: $2.50" in said.out
    assert "there are more" in said.err


def test_empty_report_is_a_table_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    print_usage(answer(group_by=("account",)), {})
    assert capsys.readouterr().out.split() == [
        "account", "req", "tokens", "hit", "first", "token", "p50", "p95", "cost"
    ]  # fmt: skip


def test_session_tells_its_slope(capsys: pytest.CaptureFixture[str]) -> None:
    print_session(session(turn(1, 10), turn(2, None)))
    said = capsys.readouterr().out
    assert "prompt grows by +10.0 tokens a turn" in said
    assert "20 tokens a turn" in said


def test_csv_has_labels_sums_and_empty_cells_for_the_unknown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_usage_csv(FULL)
    first, second = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (first["account"], first["requests"]) == ("0" * 32, "123456")
    assert (second["hit_ratio"], second["start"]) == ("", "2026-11-10T12:00:00+00:00")
    print_session_csv(session(turn(1, 10)))
    (only,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (only["number"], only["cached_tokens"]) == ("1", "")


@pytest.mark.parametrize(
    ("nanousd", "text"),
    [
        (0, "$0.00"), (1, "<$0.000001"), (1_234, "$0.000001"), (705_000, "$0.000705"),
        (700_000_000, "$0.70"),
        (999_999_999, "$1.00"), (1_005_000_000, "$1.01"), (12_345_678_900_000, "$12,345.68"),
    ],
)  # fmt: skip
def test_money_is_short(nanousd: int, text: str) -> None:
    assert dollars(nanousd) == text


def test_other_figures_are_short() -> None:
    assert [short(n) for n in (0, 999, 1234, 10**6, 2 * 10**12)] == [
        "0", "999", "1.2k", "1.0M", "2.0T"
    ]  # fmt: skip
    assert [milliseconds(t) for t in (None, 12.3, 1234.0)] == ["-", "12ms", "1.2s"]
    assert [percent(p) for p in (None, 0.0, 0.876)] == ["-", "0%", "88%"]
    assert [bar(part, 80, 10) for part in (0, 1, 4, 80)] == ["", "▏", "▌", "█" * 10]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--json", "--csv"], "not both"),
        (["--by", "minute"], "`by` must be one of hour, day"),
        (["--group-by", "colour"], "comma list"),
        (["--since", "yesterday"], "RFC 3339"),
        (["--session", "s", "--account", "a", "--model", "m"], "no parameter `model`"),
        (["--limit", "0"], "from 1 to 10000"),
        ([], "There is no Postgres to ask"),
        (["request", "x"], "There is no Postgres to ask"),
        (["export", "--out", "x.parquet", "--since", "nope"], "RFC 3339"),
        (["export", "--out", "x.csv", "--since", "2025-01-01"], "longer than 400 days"),
    ],
)
def test_wrong_question_is_one_line_and_exit_code_two(
    penstock: Penstock, arguments: list[str], said: str
) -> None:
    done = penstock("usage", *arguments)
    assert done.exit_code == 2
    assert said in done.stderr


def test_file_must_end_in_what_can_be_written(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"\.parquet or \.csv"), opened_file(tmp_path / "x"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_missing_pyarrow_is_told_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    file = tmp_path / "x.parquet"
    with pytest.raises(InvalidRequest, match="pip install pyarrow"), opened_file(file):
        pass
    assert list(tmp_path.iterdir()) == []
