"""Tables beside charts: the values of the chart, its gaps, and no text that is markup."""

import re
from xml.etree import ElementTree

from penstock.console.chart_tables import of_lines
from penstock.console.charts import Series

_HOSTILE = '"><script>alert(1)</script>'


def cells(table: str, kind: str = "td") -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(table).iter(kind)]


def test_each_point_of_each_line_has_its_cell() -> None:
    table = of_lines("n", [Series("a", [1.0, 99.6]), Series("b", [None, 0.0])], ["1", "2"], " %")
    assert cells(table) == ["1 %", "\u2013", "100 %", "0 %"]
    assert cells(table, "th") == ["Time", "a", "b", "1", "2"]


def test_a_line_that_is_shorter_than_the_time_ends_in_gaps() -> None:
    assert cells(of_lines("n", [Series("a", [1.0])], ["1", "2"])) == ["1", "\u2013"]


def test_names_are_text() -> None:
    table = of_lines(_HOSTILE, [Series(_HOSTILE, [1.0])], [_HOSTILE], _HOSTILE)
    assert "script" not in {each.tag for each in ElementTree.fromstring(table).iter()}
    assert not re.search(r"<script", table)
