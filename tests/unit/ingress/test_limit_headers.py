"""Where a caller stands with its limits, as OpenAI's clients read it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.ingress.inference.limit_headers import limit_headers
from penstock.records.account import AccountId
from penstock.records.limit import Limit, Measure, Period, Scope, Standing

NOW = 1_800_000_000.0
DURATION = re.compile(r"(\d+h)?(\d+m)?\d+(\.\d{1,3})?s")


def standing(
    measure: Measure,
    amount: int,
    left: int,
    seconds: float = 30.0,
    scope: Scope = Scope.ACCOUNT,
) -> Standing:
    limit = Limit(1, AccountId("a"), scope, "", measure, Period.MINUTE, amount)
    return Standing(limit, left, NOW + seconds)


def shown(*standings: Standing, warnings: tuple[Standing, ...] = ()) -> dict[str, str]:
    lines = limit_headers(standings, warnings, NOW).decode().split("\r\n")
    assert lines.pop() == ""
    return dict(line.split(": ", 1) for line in lines)


def test_limits_are_told_by_their_measure() -> None:
    assert shown(standing(Measure.REQUESTS, 60, 59), standing(Measure.NANOUSD, 10**9, 5)) == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "30s",
        "x-ratelimit-limit-usd": "1.000000000",
        "x-ratelimit-remaining-usd": "0.000000005",
        "x-ratelimit-reset-usd": "30s",
    }
    assert shown() == {}


def test_tightest_limit_of_a_measure_is_the_one_that_is_told() -> None:
    wide, tight = standing(Measure.TOKENS, 1000, 500), standing(Measure.TOKENS, 10_000, 900)
    for order in ((wide, tight), (tight, wide)):
        assert shown(*order)["x-ratelimit-remaining-tokens"] == "900"
    none = standing(Measure.TOKENS, 0, 0)
    assert shown(wide, none)["x-ratelimit-limit-tokens"] == "0"


def test_nothing_is_left_when_more_than_all_is_used() -> None:
    assert shown(standing(Measure.TOKENS, 10, -50))["x-ratelimit-remaining-tokens"] == "0"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"), (-5.0, "0s"), (0.00001, "0s"), (7.5, "7.5s"), (59.0, "59s"), (60.0, "1m0s"),
        (61.9, "1m1s"), (3600.0, "1h0m0s"), (86_399.0, "23h59m59s"), (31 * 86400.0, "744h0m0s"),
    ],
)  # fmt: skip
def test_time_to_the_reset_is_written_as_openai_does(seconds: float, text: str) -> None:
    found = shown(standing(Measure.REQUESTS, 1, 1, seconds))
    assert found["x-ratelimit-reset-requests"] == text


@given(st.floats(-1e6, 1e7))
def test_time_can_always_be_read(seconds: float) -> None:
    found = shown(standing(Measure.REQUESTS, 1, 1, seconds))
    assert DURATION.fullmatch(found["x-ratelimit-reset-requests"])


@given(st.integers(0, 59_999))
def test_time_within_a_minute_is_exact_to_the_millisecond(milliseconds: int) -> None:
    found = shown(standing(Measure.REQUESTS, 1, 1, milliseconds / 1000))
    text = f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".")
    assert found["x-ratelimit-reset-requests"] == f"{text}s"


def test_a_limit_that_was_changed_is_told_as_it_is_now() -> None:
    for amount in (60, 70):
        found = shown(standing(Measure.REQUESTS, amount, 1))
        assert found["x-ratelimit-limit-requests"] == str(amount)


def test_soft_limits_that_were_passed_are_named_once() -> None:
    passed = (
        standing(Measure.NANOUSD, 1, -1, scope=Scope.WORKFLOW),
        standing(Measure.NANOUSD, 2, -1, scope=Scope.WORKFLOW),
        standing(Measure.REQUESTS, 1, -1),
    )
    found = shown(warnings=passed)
    expected = "account requests/minute, workflow usd/minute"
    assert found == {"x-penstock-limit-warning": expected}
