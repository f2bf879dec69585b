"""Tables: ids stay whole, columns give way from the right, prose is broken between words."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from penstock.cli.output import print_table
from penstock.cli.table import Column, lay_out
from penstock.console.formats import last_part

ID = "01a1e5b5-4430-76d7-a06d-5c7d263c4383"


def terminal(width: int) -> Console:
    return Console(file=io.StringIO(), width=width, force_terminal=True)


def pipe() -> Console:
    return Console(file=io.StringIO(), width=80, force_terminal=False)


def test_columns_line_up_and_numbers_stand_right() -> None:
    rows = [("a", "1"), ("long", "100")]
    layout = lay_out(("name", Column("n", is_right=True)), rows, terminal(80))
    assert [line.plain for line in layout.lines] == ["name    n", "a       1", "long  100"]
    assert layout.left_out == []


def test_optional_columns_are_left_out_from_the_right() -> None:
    columns = ("id", Column("first", is_optional=True), Column("second", is_optional=True), "end")
    rows = [(ID, "1" * 10, "2" * 10, "3")]
    assert lay_out(columns, rows, terminal(80)).left_out == []
    assert lay_out(columns, rows, terminal(60)).left_out == ["second"]
    narrow = lay_out(columns, rows, terminal(38))
    assert narrow.left_out == ["first", "second"]
    assert narrow.lines[1].plain == f"{ID} 3"


def test_what_cannot_be_left_out_is_never_broken() -> None:
    layout = lay_out(("id", "end"), [(ID, "3")], terminal(20))
    assert [line.plain for line in layout.lines][1] == f"{ID} 3"


def test_prose_is_broken_between_words_below_itself() -> None:
    rows = [("key", "these are some words to break")]
    layout = lay_out(("name", Column("value", is_prose=True)), rows, terminal(28))
    assert [line.plain for line in layout.lines] == [
        "name  value",
        "key   these are some words",
        "      to break",
    ]


def test_a_pipe_gets_every_column_and_no_line_longer_than_its_content() -> None:
    columns = ("id", Column("x" * 50, is_optional=True), Column("prose", is_prose=True))
    rows = [(ID, "short", "word " * 30), (ID, "short", "")]
    lines = [line.plain for line in lay_out(columns, rows, pipe()).lines]
    assert len(lines) == 3
    assert lines[2] == f"{ID}  short"
    assert all(line == line.rstrip() for line in lines)


def test_a_table_without_titles_has_no_head() -> None:
    layout = lay_out(("", ""), [("a", Text("b", style="red"))], terminal(80))
    assert [line.plain for line in layout.lines] == ["a  b"]


def test_a_note_names_what_found_no_room(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    print_table(("id", Column("account", is_optional=True)), [(ID, "research")])
    said = capsys.readouterr()
    assert "research" not in said.out
    assert "no room for: account" in said.err


@pytest.mark.parametrize(
    ("model", "shown"),
    [("@local/huggingfacetb/smollm2-135m-instruct", "smollm2-135m-instruct"), ("kimi", "kimi")],
)
def test_models_are_shown_by_their_last_part(model: str, shown: str) -> None:
    assert last_part(model) == shown


@given(
    st.lists(st.tuples(st.text("ab-", max_size=40), st.text("ab-", max_size=40)), max_size=5),
    st.integers(50, 120),
)
def test_lines_fit_whenever_what_must_be_shown_fits(
    rows: list[tuple[str, str]], width: int
) -> None:
    columns = ("id", Column("other", is_optional=True), Column("prose", is_prose=True))
    cells = [(ID[: len(one)], other, "some words") for one, other in rows]
    for line in lay_out(columns, cells, terminal(width)).lines:
        assert line.cell_len <= width
