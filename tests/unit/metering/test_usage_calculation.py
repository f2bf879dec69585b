"""A charge spelled out is the charge, and an export's row multiplies out."""

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from penstock.metering import usd
from penstock.metering.reports.focus import COLUMNS, Charge, Kind, focus_row
from penstock.metering.reports.rows import calculation, ratio
from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage

counts = st.integers(0, 10**9)
prices = st.builds(Price, *[st.integers(0, 10**15)] * 3, st.integers(0, 10**6))
usages = st.builds(Usage, counts, counts, st.none() | counts)


@given(usages, prices)
def test_lines_multiply_out_to_the_charge(usage: Usage, price: Price) -> None:
    cost = cost_nanousd(usage, price)
    told = calculation(usage, price, charge_nanousd=cost, reason="")
    total = sum(line.product for line in told.lines) * told.multiplier_bp
    assert (total + 5 * 10**9) // 10**10 == told.calculated_nanousd == cost
    assert sum(line.tokens for line in told.lines[:2]) == usage.prompt_tokens
    assert told.text.endswith(f"= {cost} nano-dollars")


def test_charge_that_differs_says_so_and_why() -> None:
    price = Price(10**6, 0, 0)
    told = calculation(Usage(5, 0), price, charge_nanousd=0, reason="not_delivered")
    assert told.text.endswith("= 5 nano-dollars; charged 0: not_delivered")
    unexplained = calculation(Usage(5, 0), price, charge_nanousd=1, reason="")
    assert unexplained.text.endswith("= 5 nano-dollars; charged 1")
    guessed = calculation(Usage(5, 0), price, charge_nanousd=5, reason="estimated")
    assert guessed.text.endswith("= 5 nano-dollars; the tokens are estimated")


def test_unknown_ratio_is_none_and_negative_money_has_its_sign() -> None:
    assert ratio(0, 0) is None
    assert ratio(0, 4) == 0.0
    assert usd(-1) == "-0.000000001"


def charge(hour: datetime, tokens: int, price: int, multiplier: int) -> dict[str, object]:
    made = Charge(
        hour=hour,
        account="a",
        account_name=None,
        key="k",
        model="m",
        tier="now",
        workflow="",
        kind=Kind.CACHED_INPUT,
        tokens=tokens,
        nanousd_per_mtok=price,
        multiplier_bp=multiplier,
        charge_nanousd=tokens,
        charge_reason="",
    )
    return dict(zip(COLUMNS, focus_row(made), strict=True))


@given(counts, st.integers(0, 10**15), st.integers(0, 10**6))
def test_list_cost_is_quantity_times_price_to_the_last_digit(
    tokens: int, price: int, multiplier: int
) -> None:
    row = charge(datetime(2026, 2, 28, 23, tzinfo=UTC), tokens, price, multiplier)
    cost = row["ListCost"]
    assert isinstance(cost, Decimal)
    assert int(cost.as_tuple().exponent) == -19
    assert cost == Decimal(f"{tokens * price * multiplier}E-19")
    assert row["BilledCost"] == Decimal(f"{tokens}E-9")


def test_billing_period_is_the_month_of_the_charge() -> None:
    for month, following in ((1, 2), (2, 3), (12, 1)):
        row = charge(datetime(2026, month, 28, 23, tzinfo=UTC), 1, 1, 1)
        assert row["BillingPeriodStart"] == datetime(2026, month, 1, tzinfo=UTC)
        year = 2026 + (following == 1)
        assert row["BillingPeriodEnd"] == datetime(year, following, 1, tzinfo=UTC)
