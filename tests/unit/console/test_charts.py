"""Charts: what they draw, what they are called, and that no text in them is markup."""

import re
from xml.etree import ElementTree

import pytest

from penstock.console.charts import (
    Bar,
    Series,
    TimePart,
    WaterfallStep,
    bars,
    line,
    lines,
    steps,
    timeline,
)

_HOSTILE = '"><script>alert(1)</script>'


def read(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


@pytest.mark.parametrize(
    "svg",
    [
        line([0.1, None, 0.9], 1.0, _HOSTILE),
        lines(_HOSTILE, [Series(_HOSTILE, [1.0, 2.0])], [_HOSTILE, "b"], " %"),
        bars(_HOSTILE, [Bar(_HOSTILE, (1.0, 2.0), link=_HOSTILE, mark=_HOSTILE)]),
        steps(
            _HOSTILE,
            [
                WaterfallStep("before", 1.0),
                WaterfallStep(_HOSTILE, 0.5, _HOSTILE),
                WaterfallStep("now", 1.5),
            ],
        ),
        timeline([TimePart(_HOSTILE, 1.0)]),
    ],
)
def test_texts_are_no_markup_and_every_chart_has_a_name(svg: str) -> None:
    root = read(svg)
    # An image has no parts that could be links.
    has_links = any(each.tag == "a" for each in root.iter())
    assert root.get("role") == ("group" if has_links else "img")
    assert root.get("aria-label")
    assert "script" not in {each.tag for each in root.iter()}
    # The Content-Security-Policy forbids inline styles.
    assert not re.search(r"\sstyle=|<style", svg)


def test_a_gap_parts_a_line_and_a_single_point_is_seen() -> None:
    paths = [
        each.get("d") or "" for each in read(line([1.0, 1.0, None, 0.5, None], 1.0)).iter("path")
    ]
    assert len(paths) == 2
    assert paths[1].endswith("h2")


def test_charts_of_nothing_are_charts() -> None:
    for svg in (line([]), lines("n", [], []), bars("n", []), steps("n", []), timeline([])):
        assert read(svg).tag == "svg"


def test_bars_stand_on_each_other() -> None:
    root = read(bars("n", [Bar("t", (3.0, 1.0))]))
    low, high = list(root.iter("rect"))
    bottom = float(low.get("y") or 0)
    assert float(high.get("y") or 0) + float(high.get("height") or 0) == pytest.approx(bottom)
    assert float(low.get("height") or 0) == pytest.approx(
        3 * float(high.get("height") or 0), rel=0.01
    )
