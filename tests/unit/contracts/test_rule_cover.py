"""Conditions that say nothing are found, and so are rules that an earlier one hides."""

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.unit.contracts.contract_samples import askings, whens

from penstock.contracts.asked import Asked
from penstock.contracts.deciding import matches
from penstock.contracts.document import When
from penstock.contracts.rule_cover import covers, fault_in_conditions


def when(**conditions: Any) -> When:
    return msgspec.convert(conditions, When)


@pytest.mark.parametrize(
    ("conditions", "fault"),
    [
        ({}, "has no condition"),
        ({"tools_min": 3, "tools_max": 2}, "tools_min = 3 is more than tools_max = 2"),
        ({"opening_bytes_min": 2, "opening_bytes_max": 1}, "opening_bytes_min = 2 is more than"),
        ({"output_tokens_min": 2, "output_tokens_max": 1}, "output_tokens_min = 2 is more than"),
        ({"tools": 1, "tools_min": 1}, "says it twice"),
        ({"tools": 1, "tools_max": 1}, "says it twice"),
        ({"tools": 0, "tool": "bash"}, "nothing can match"),
        ({"tools_max": 0, "tool": "bash"}, "nothing can match"),
        ({"tools_min": 0}, "tools_min = 0 holds for every request"),
        ({"opening_bytes_min": 0}, "opening_bytes_min = 0 holds for every request"),
    ],
)
def test_conditions_that_say_nothing_are_found(conditions: dict[str, Any], fault: str) -> None:
    assert fault in fault_in_conditions(when(**conditions))


@pytest.mark.parametrize(
    "conditions",
    [
        {"tools": 0},
        {"stream": False},
        {"tools_min": 2, "tools_max": 2},
        {"tools_max": 0},
        {"tool": "fetch*", "tools_max": 1},
        # It holds only where the caller bounds the output.
        {"output_tokens_min": 0},
        {"opening_bytes_max": 0},
    ],
)
def test_conditions_that_may_hold_have_no_fault(conditions: dict[str, Any]) -> None:
    assert fault_in_conditions(when(**conditions)) == ""


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"tools": 0}, {"tools": 0}),
        ({"tools": 0}, {"tools": 0, "stream": True}),
        ({"tools_max": 3}, {"tools_max": 3}),
        ({"tools_max": 3}, {"tools_max": 2}),
        ({"tools_max": 3}, {"tools": 3}),
        ({"tools_min": 1}, {"tools": 1}),
        ({"tools_min": 1}, {"tools_min": 2, "api": "chat"}),
        ({"tool": "fetch*"}, {"tool": "fetch*", "images": False}),
        ({"opening_bytes_max": 40}, {"opening_bytes_max": 40, "structured": True}),
        ({"output_tokens_min": 5, "output_tokens_max": 9}, {"output_tokens_min": 6,
                                                            "output_tokens_max": 7}),
        ({"key": "k1"}, {"key": "k1", "model": "big"}),
    ],
)  # fmt: skip
def test_wider_conditions_cover_narrower_ones(wide: dict[str, Any], narrow: dict[str, Any]) -> None:
    assert covers(when(**wide), when(**narrow))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ({"tools": 0}, {"tools": 1}),
        ({"tools": 0, "stream": True}, {"tools": 0}),
        ({"tools_max": 3}, {"tools_max": 4}),
        ({"tools_max": 3}, {"tools": 4}),
        ({"tools_max": 3}, {"tools_min": 1}),
        ({"tools_min": 1}, {"tools": 0}),
        ({"tools": 2}, {"tools_max": 2}),
        ({"stream": False}, {"stream": True}),
        ({"tool": "fetch_page"}, {"tool": "fetch*"}),
        # No bound at all fulfils the second, and not the first.
        ({"output_tokens_max": 64}, {"tools": 0}),
    ],
)
def test_what_may_match_beside_it_is_not_covered(
    wide: dict[str, Any], narrow: dict[str, Any]
) -> None:
    assert not covers(when(**wide), when(**narrow))


@given(whens(), whens(), askings(), st.data())
def test_a_request_for_covered_conditions_fulfils_those_that_cover_them(
    wide: When, narrow: When, asked: Asked, data: st.DataObject
) -> None:
    # Two at random seldom cover each other: leave some conditions out of a copy.
    kept = data.draw(st.sets(st.sampled_from(When.__struct_fields__)))
    loosened = When(**{name: getattr(narrow, name) for name in kept})
    assert covers(loosened, narrow)
    for other in (wide, loosened):
        if covers(other, narrow) and matches(narrow, asked):
            assert matches(other, asked)


RANGES = ("tools", "opening_bytes", "output_tokens")


@given(st.sampled_from(RANGES), st.lists(st.integers(0, 3), min_size=4, max_size=4), askings())
def test_a_range_within_another_is_covered(name: str, bounds: list[int], asked: Asked) -> None:
    least, inner_least, inner_most, most = sorted(bounds)
    wide = when(**{f"{name}_min": least, f"{name}_max": most})
    narrow = when(**{f"{name}_min": inner_least, f"{name}_max": inner_most})
    assert covers(wide, narrow)
    assume(matches(narrow, asked))
    assert matches(wide, asked)


@given(whens(), askings())
def test_conditions_with_a_fault_hold_for_no_request_or_for_every_one(
    conditions: When, asked: Asked
) -> None:
    fault = fault_in_conditions(conditions)
    if fault.endswith("nothing can match"):
        assert not matches(conditions, asked)
