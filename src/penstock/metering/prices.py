"""The price book: which price a request has, by its model, tier and start. Pure.

A request keeps the price of its start, whatever the book says when it ends.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, time
from typing import Final

from penstock.records.model import Model, ModelId
from penstock.records.price import Price, Prices, Tier

_NANOUSD_PER_USD: Final = 10**9


# The first row of a book holds from ever, so this is never what is found.
_NO_PRICES: Final[dict[Tier, Price]] = {}


class PriceBook:
    """All models' prices, ready to be looked up."""

    def __init__(self, models: Iterable[Model]) -> None:
        self._rows = {model.id: [_row(prices) for prices in model.prices] for model in models}

    def price(self, model: ModelId, tier: Tier, at: float) -> Price:
        """The price at a time, in seconds since 1970."""
        by_tier = _NO_PRICES
        for start, prices in self._rows[model]:
            if start > at:
                break
            by_tier = prices
        return by_tier[tier]


def _row(prices: Prices) -> tuple[float, dict[Tier, Price]]:
    start = float("-inf")
    if prices.valid_from is not None:
        start = datetime.combine(prices.valid_from, time(), UTC).timestamp()
    tokens = (
        prices.input_nanousd_per_mtok,
        prices.cached_input_nanousd_per_mtok,
        prices.output_nanousd_per_mtok,
    )
    multipliers = {
        Tier.NOW: prices.now_bp,
        Tier.FLEX: prices.flex_bp,
        Tier.BATCH: prices.batch_bp,
    }
    return start, {tier: Price(*tokens, bp) for tier, bp in multipliers.items()}


def usd(nanousd: int) -> str:
    """Nano-dollars as dollars, every digit of them."""
    if nanousd < 0:
        return f"-{usd(-nanousd)}"
    dollars = nanousd // _NANOUSD_PER_USD
    # A one in front of the rest keeps its zeros, and is cut off: every answer has a cost in it.
    rest = str(nanousd - dollars * _NANOUSD_PER_USD + _NANOUSD_PER_USD)
    return f"{dollars}.{rest[1:]}"
