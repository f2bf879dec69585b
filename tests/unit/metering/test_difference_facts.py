"""The sentence of a change: its two largest parts, each with a figure that was measured."""

from typing import Any

import msgspec
import pytest

from penstock.metering.reports.difference import PeriodUse, difference
from penstock.metering.reports.difference_facts import why
from penstock.metering.reports.model_use import ModelTier, ModelUse, TokenSums, model_use
from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage

CHEAP = Price(600_000_000, 150_000_000, 3_000_000_000)
DEAR = Price(2_500_000_000, 250_000_000, 12_000_000_000)
ONE: ModelTier = ("@cf/a/one", "now")
FLEX: ModelTier = ("@cf/a/one", "flex")


def use(
    attempts: int = 1000,
    prompt: int = 8000,
    hit: float | None = 0.91,
    output: int = 300,
    price: Price = CHEAP,
    *,
    is_charged: bool = True,
) -> ModelUse:
    prompts, outputs = attempts * prompt, attempts * output
    cached = round(prompts * (hit or 0))
    charge = cost_nanousd(Usage(prompts, outputs, cached), price) if is_charged else 0
    known = 0 if hit is None else prompts
    return model_use(TokenSums(attempts, prompts, known, cached, outputs, charge), price)


def sentence(before: PeriodUse, after: PeriodUse) -> str:
    return why(before, after, difference(before, after))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"prompt": 10_310, "hit": 0.52}, "hit ratio 91 → 52 %; prompts +2,310 tokens a request"),
        ({"prompt": 8004}, "prompts +4.0 tokens a request"),
        ({"hit": 0.912}, "hit ratio 91.0 → 91.2 %"),
        ({"hit": None}, "hit ratio not always known"),
        ({"output": 240}, "answers -60 tokens a request"),
        ({"price": Price(660_000_000, 165_000_000, 3_300_000_000)}, "prices +10.0 %"),
        ({"price": Price()}, "prices -100.0 %"),
        ({"is_charged": False}, "not charged $0.00 → $2.42"),
        ({"attempts": 1300}, "attempts a request 1.00 → 1.30"),
        ({}, "no change"),
    ],
)
def test_figures_of_one_model(change: dict[str, Any], text: str) -> None:
    before, after = PeriodUse(1000, {ONE: use()}), PeriodUse(1000, {ONE: use(**change)})
    assert sentence(before, after) == text


def test_charges_above_the_list_are_not_called_uncharged() -> None:
    listed = use()
    dear = msgspec.structs.replace(listed, charge_nanousd=listed.charge_nanousd + 1_500_000)
    before, after = PeriodUse(1000, {ONE: listed}), PeriodUse(1000, {ONE: dear})
    assert sentence(before, after) == "charged above list $0.00 → $0.001500"


def test_prices_from_nothing() -> None:
    before = PeriodUse(1000, {ONE: use(price=Price())})
    assert sentence(before, PeriodUse(1000, {ONE: use()})) == "prices from nothing"


def test_new_and_gone_groups() -> None:
    nothing, some = PeriodUse(0, {}), PeriodUse(1200, {ONE: use(1200)})
    assert sentence(nothing, some) == "new: 1,200 requests"
    assert sentence(some, nothing) == "gone: 1,200 requests before"
    assert sentence(nothing, nothing) == ""


def test_second_part_is_told_only_if_it_matters() -> None:
    before = PeriodUse(1000, {ONE: use()})
    after = PeriodUse(2000, {ONE: use(2000, prompt=8020)})
    assert sentence(before, after) == "requests 1,000 → 2,000"


def test_model_is_named_where_there_are_several() -> None:
    before = PeriodUse(1000, {ONE: use(500), FLEX: use(500, prompt=100)})
    longer = PeriodUse(1000, {ONE: use(500), FLEX: use(500, prompt=5100)})
    assert sentence(before, longer) == "one (flex) prompts +5,000 tokens a request"
    mixed = PeriodUse(1000, {ONE: use(900), FLEX: use(100, prompt=100)})
    assert sentence(before, mixed) == "one 50 → 90 % of requests"


def test_figure_points_in_the_direction_of_its_part() -> None:
    """Prompts of both models grow, but their mean falls: more requests have short ones."""
    before = PeriodUse(1000, {ONE: use(900), FLEX: use(100, prompt=100)})
    after = PeriodUse(1000, {ONE: use(100, prompt=14_000), FLEX: use(900, prompt=110)})
    parts = difference(before, after)
    assert parts.prompts > 0
    assert "one prompts +6,000 tokens a request" in why(before, after, parts)
