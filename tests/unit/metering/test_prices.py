"""Money is exact: integers, one rounding, cached tokens counted once."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from penstock.metering import usd
from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage

KIMI = Price(600_000_000, 100_000_000, 3_000_000_000)
TOKENS = st.integers(0, 10**7)
NANOUSD = st.integers(0, 10**12)


def test_a_hand_calculation() -> None:
    usage = Usage(prompt_tokens=5_933, completion_tokens=100, cached_tokens=5_888)
    # 45 * $0.60 + 5,888 * $0.10 + 100 * $3.00, per million.
    assert cost_nanousd(usage, KIMI) == 27_000 + 588_800 + 300_000
    assert usd(cost_nanousd(usage, KIMI)) == "0.000915800"


def test_unknown_cached_tokens_are_not_given_away() -> None:
    known = Usage(1000, 0, 0)
    assert cost_nanousd(Usage(1000, 0), KIMI) == cost_nanousd(known, KIMI)


@given(TOKENS, TOKENS, TOKENS, NANOUSD, NANOUSD, NANOUSD, st.integers(0, 50_000))
def test_cost_is_the_exact_sum_rounded_once(
    uncached: int,
    cached: int,
    output: int,
    price: int,
    cached_price: int,
    output_price: int,
    bp: int,
) -> None:
    prices = Price(price, cached_price, output_price, bp)
    usage = Usage(uncached + cached, output, cached)
    exact = Fraction(uncached * price + cached * cached_price + output * output_price, 10**6)
    exact *= Fraction(bp, 10_000)
    assert abs(cost_nanousd(usage, prices) - exact) <= Fraction(1, 2)


@given(TOKENS, TOKENS, st.integers(0, 2 * 10**7))
def test_an_engine_that_claims_too_much_cache_costs_nobody_less_than_nothing(
    prompt: int, output: int, cached: int
) -> None:
    assert cost_nanousd(Usage(prompt, output, cached), KIMI) >= 0


@given(st.integers(0, 10**18))
def test_dollars_keep_every_digit(nanousd: int) -> None:
    whole, _, rest = usd(nanousd).partition(".")
    assert int(whole) * 10**9 + int(rest) == nanousd


@given(TOKENS, TOKENS, TOKENS, NANOUSD, NANOUSD, NANOUSD)
def test_a_half_is_rounded_up_once(
    uncached: int, cached: int, output: int, price: int, cached_price: int, output_price: int
) -> None:
    total = uncached * price + cached * cached_price + output * output_price
    usage = Usage(uncached + cached, output, cached)
    cost = cost_nanousd(usage, Price(price, cached_price, output_price))
    assert cost == (total + 500_000) // 1_000_000
