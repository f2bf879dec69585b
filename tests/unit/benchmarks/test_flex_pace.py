"""The pace of live requests follows from the engine's own prefill rate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flex_pace import Prefill, interval_seconds, prefill_rate, read_loads


def test_the_rate_is_the_median_and_one_slow_prompt_does_not_move_it() -> None:
    measured = [Prefill(1600, 1.6), Prefill(1500, 1.5), Prefill(1550, 1.55), Prefill(1500, 30.0)]
    assert prefill_rate(measured) == pytest.approx(1000.0)


@pytest.mark.parametrize(("load", "seconds"), [(0.4, 4.0), (0.7, 16 / 7)])
def test_the_pause_leaves_the_engine_so_busy(load: float, seconds: float) -> None:
    assert interval_seconds(1600, 1000.0, load) == pytest.approx(seconds)


@given(st.floats(1, 1e5), st.floats(1, 1e5), st.floats(0.01, 0.99))
def test_tokens_come_at_that_share_of_the_rate(tokens: float, rate: float, load: float) -> None:
    assert tokens / interval_seconds(tokens, rate, load) == pytest.approx(rate * load)


@pytest.mark.parametrize("wrong", [(0, 1000.0, 0.4), (1600, 0.0, 0.4), (1600, 1000.0, 1.0)])
def test_a_pace_that_cannot_be_is_refused(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="no pace"):
        interval_seconds(*wrong)


def test_loads_are_read_and_bounded() -> None:
    assert read_loads("0.4,0.7") == (0.4, 0.7)
    for wrong in ("0", "1", "0.4,1.2", "-0.1", "nan"):
        with pytest.raises(ValueError, match="a load"):
            read_loads(wrong)
