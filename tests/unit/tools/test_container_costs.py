"""Prices and charges of containers, as integers."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tools import ToolsSettings
from penstock.tools.container_upkeep import cost_nanousd_of


@pytest.mark.parametrize(
    ("text", "nanousd"),
    [("0", 0), ("0.000000001", 1), ("1.5", 1_500_000_000), ("12", 12_000_000_000)],
)
def test_a_price_is_read_exactly(text: str, nanousd: int) -> None:
    assert ToolsSettings(container_usd_per_gb_minute=text).nanousd_per_gb_minute == nanousd


def test_a_gigabyte_for_a_minute_costs_the_price() -> None:
    assert cost_nanousd_of(700, 1024, 0, 60_000) == 700
    assert cost_nanousd_of(700, 4096, 60_000, 180_000) == 5600


@given(
    st.integers(0, 10**12),
    st.integers(1, 10**6),
    st.lists(st.integers(0, 10**9), min_size=2, max_size=20),
)
def test_however_often_it_is_charged_the_sum_is_the_same(
    price: int, memory_mb: int, points: list[int]
) -> None:
    points.sort()
    pairs = pairwise(points)
    parts = [cost_nanousd_of(price, memory_mb, before, after) for before, after in pairs]
    assert sum(parts) == cost_nanousd_of(price, memory_mb, points[0], points[-1])
    assert min(parts) >= 0
