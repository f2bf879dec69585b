"""What is reserved for a request before it runs, and how amounts are said."""

import pytest
from tests.unit.admission.limit_samples import a_request

from penstock.admission import estimate_nanousd, quantity
from penstock.admission.estimate import estimate
from penstock.records.limit import Measure
from penstock.records.price import Price

REQUEST = a_request(
    prompt_tokens_estimate=1000,
    output_tokens_max=500,
    price=Price(600_000_000, 100_000_000, 3_000_000_000, 10_000),
)


def test_each_measure_reserves_the_most_the_request_may_use() -> None:
    assert estimate(REQUEST, Measure.REQUESTS) == 1
    assert estimate(REQUEST, Measure.TOKENS) == 1500
    # 1000 tokens at $0.60 and 500 at $3 a million, none of them taken for cached.
    assert estimate(REQUEST, Measure.NANOUSD) == estimate_nanousd(REQUEST) == 2_100_000


@pytest.mark.parametrize(
    ("amount", "measure", "said"),
    [
        (1, Measure.REQUESTS, "1 request"),
        (0, Measure.REQUESTS, "0 requests"),
        (4096, Measure.TOKENS, "4096 tokens"),
        (12_500_000_000, Measure.NANOUSD, "12.50 USD"),
        (1, Measure.NANOUSD, "0.000000001 USD"),
        (0, Measure.NANOUSD, "0.00 USD"),
        (-1_250_000_000, Measure.NANOUSD, "-1.25 USD"),
    ],
)
def test_amounts_are_said_exactly(amount: int, measure: Measure, said: str) -> None:
    assert quantity(amount, measure) == said
