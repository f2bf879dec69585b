"""From tokens to money there is one way: every token is billed once, and more never costs less."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage

TOKENS = st.integers(0, 2**31)
PRICES = st.builds(Price, *[st.integers(0, 10**15)] * 3, st.integers(0, 10**6))


@given(TOKENS, TOKENS, PRICES, st.data())
def test_uncached_and_cached_are_the_prompt_and_each_is_billed_once(
    prompt: int, output: int, price: Price, data: st.DataObject
) -> None:
    cached = data.draw(st.integers(0, prompt))
    parts = [
        Usage(prompt - cached, 0, 0), Usage(cached, 0, cached), Usage(0, output, 0),
    ]  # fmt: skip
    together = cost_nanousd(Usage(prompt, output, cached), price)
    assert abs(together - sum(cost_nanousd(part, price) for part in parts)) <= 2


@given(TOKENS, TOKENS, PRICES)
def test_more_tokens_never_cost_less(prompt: int, output: int, price: Price) -> None:
    cost = cost_nanousd(Usage(prompt, output), price)
    assert cost_nanousd(Usage(prompt + 1, output), price) >= cost
    assert cost_nanousd(Usage(prompt, output + 1), price) >= cost
    assert cost_nanousd(Usage(0, 0), price) == 0


@given(TOKENS, TOKENS, PRICES)
def test_unknown_cached_is_paid_as_uncached(prompt: int, output: int, price: Price) -> None:
    assert cost_nanousd(Usage(prompt, output), price) == cost_nanousd(
        Usage(prompt, output, 0), price
    )
