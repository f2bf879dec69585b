"""A request is priced by the book's row at its start: from midnight UTC on, by its tier."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.metering import PriceBook
from penstock.records.model import Family, Model, ModelId, Recipe
from penstock.records.price import Prices, Tier, cost_nanousd
from penstock.records.usage import Usage

MODEL = ModelId("@cf/x/y")


def book(*prices: Prices) -> PriceBook:
    model = Model(
        id=MODEL,
        family=Family.OPENAI,
        context_tokens=1000,
        recipe=Recipe(command=("x",)),
        prices=prices,
    )
    return PriceBook([model])


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]


def test_row_holds_from_midnight_utc_of_its_day_until_the_next() -> None:
    prices = book(
        Prices(1000),
        Prices(2000, valid_from=date(2027, 1, 1)),
        Prices(3000, valid_from=date(2027, 3, 1)),
    )

    def input_at(seconds: float) -> int:
        return prices.price(MODEL, Tier.NOW, seconds).input_nanousd_per_mtok

    assert input_at(0.0) == 1000
    assert input_at(-1e9) == 1000
    assert input_at(at(2027, 1, 1) - 0.001) == 1000
    assert input_at(at(2027, 1, 1)) == 2000
    assert input_at(at(2027, 2, 28, 23, 59, 59) + 0.999) == 2000
    assert input_at(at(2027, 3, 1)) == 3000
    assert input_at(at(2099, 1, 1)) == 3000


def test_tier_has_the_multiplier_of_its_row() -> None:
    prices = book(Prices(1000, 10, 5000, now_bp=10_000, flex_bp=5_000, batch_bp=2_500))
    costs = {
        tier: cost_nanousd(Usage(10**6, 10**6, 0), prices.price(MODEL, tier, 0.0)) for tier in Tier
    }
    assert costs == {Tier.NOW: 6000, Tier.FLEX: 3000, Tier.BATCH: 1500}


def test_model_that_is_not_in_the_book_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        book(Prices()).price(ModelId("@cf/no/such"), Tier.NOW, 0.0)


@given(st.lists(st.dates(date(2000, 1, 1), date(2100, 1, 1)), unique=True, max_size=6), st.data())
def test_price_is_of_the_last_row_that_has_begun(days: list[date], data: st.DataObject) -> None:
    rows = [Prices(1)] + [Prices(n + 2, valid_from=d) for n, d in enumerate(sorted(days))]
    second = data.draw(st.integers(0, 86399))
    day = data.draw(st.sampled_from(days) if days else st.just(date(2030, 1, 1)))
    day += timedelta(days=data.draw(st.sampled_from([-1, 0, 1])))
    found = book(*rows).price(MODEL, Tier.NOW, at(day.year, day.month, day.day) + second)
    begun = [row for row in rows if row.valid_from is None or row.valid_from <= day]
    assert found.input_nanousd_per_mtok == begun[-1].input_nanousd_per_mtok


def test_starts_of_prices_within_a_period() -> None:
    cheap, dear = Prices(), Prices(valid_from=date(2026, 11, 12))
    prices = book(cheap, dear)
    midnight = at(2026, 11, 12)
    assert prices.starts_within(midnight - 1, midnight + 1) == [midnight]
    # A price that begins with the period changes nothing inside it.
    assert prices.starts_within(midnight, midnight + 1) == []
    assert prices.starts_within(midnight - 1, midnight) == []
    assert (prices.knows(MODEL), prices.knows("@cf/x/z")) == (True, False)
