"""Canaries: equal ones pass, slow and failing ones are found, few requests say nothing."""

import random

import pytest

from penstock.fleet.cell.judge import REQUESTS_MIN, Side, Verdict, judge
from penstock.records.deployment import HaltLines

LINES = HaltLines()


def side(seed: int, count: int, *, slow: float = 1.0, failing: float = 0.01) -> Side:
    """Requests with first tokens as engines have them: a long tail."""
    rng = random.Random(seed)
    times = sorted(slow * rng.lognormvariate(5.5, 0.7) for _ in range(count))
    return Side(count, sum(rng.random() < failing for _ in range(count)), times)


@pytest.mark.parametrize("seed", range(20))
def test_an_equal_canary_is_not_halted_however_often_it_is_looked_at(seed: int) -> None:
    for count in range(200, 2000, 50):
        verdict, _ = judge(
            side(seed * 1000 + count, count), side(seed * 1000 - count, 3 * count), LINES
        )
        assert verdict is Verdict.EQUAL


@pytest.mark.parametrize("seed", range(20))
def test_a_canary_that_is_slow_or_fails_is_found(seed: int) -> None:
    stable = side(seed, 3000)
    assert judge(side(seed + 100, 600, slow=1.5), stable, LINES)[0] is Verdict.WORSE
    assert judge(side(seed + 100, 600, failing=0.06), stable, LINES)[0] is Verdict.WORSE


def test_few_requests_are_not_judged() -> None:
    bad = side(1, REQUESTS_MIN - 1, slow=10, failing=1.0)
    verdict, figures = judge(bad, side(2, 1000), LINES)
    assert verdict is Verdict.TOO_FEW
    assert figures == "199 and 1000 requests; at least 200 on each side are compared"


def test_figures_are_told_in_words() -> None:
    _, figures = judge(Side(200, 20, [300.0]), Side(200, 0, [100.0]), LINES)
    assert figures == "10.0% of requests failed, 0.0% before"
    _, figures = judge(Side(200, 0, [100.0]), Side(200, 0, [100.0]), LINES)
    assert figures == "0.0% of requests failed, 0.0% before; first token 100 ms, 100 ms before"
