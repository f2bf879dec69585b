"""Looks up the price of a request in the price book, by its model, tier and start time. Pure.

A request keeps the price of its start, even if the price has changed when it ends.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, time

from penstock.records.decimals import billionths
from penstock.records.model import Model, ModelId
from penstock.records.price import Price, Prices, Tier


class PriceBook:
    """Looks up the prices of all models."""

    def __init__(self, models: Iterable[Model]) -> None:
        self._rows = {model.id: [_row(prices) for prices in model.prices] for model in models}

    def knows(self, model: str) -> bool:
        return model in self._rows

    def starts_within(self, since: float, until: float) -> list[float]:
        """Return the times inside a period at which the price of any model changes, in order."""
        starts = {row.start for rows in self._rows.values() for row in rows}
        return sorted(start for start in starts if since < start < until)

    def price(self, model: ModelId, tier: Tier, at: float) -> Price:
        """Return the price at a time, in seconds since 1970."""
        rows = self._rows[model]
        # The first row of a book has no start.
        found = rows[0]
        for row in rows:
            if row.start > at:
                break
            found = row
        if tier is Tier.NOW:
            return found.now
        return found.flex if tier is Tier.FLEX else found.batch


class _Row:
    """The prices of all tiers, valid from `start`."""

    def __init__(self, start: float, now: Price, flex: Price, batch: Price) -> None:
        self.start = start
        self.now = now
        self.flex = flex
        self.batch = batch


def _row(prices: Prices) -> _Row:
    start = float("-inf")
    if prices.valid_from is not None:
        start = datetime.combine(prices.valid_from, time(), UTC).timestamp()
    tokens = (
        prices.input_nanousd_per_mtok,
        prices.cached_input_nanousd_per_mtok,
        prices.output_nanousd_per_mtok,
    )
    return _Row(
        start,
        Price(*tokens, prices.now_bp),
        Price(*tokens, prices.flex_bp),
        Price(*tokens, prices.batch_bp),
    )


def usd(nanousd: int) -> str:
    """Return nano-dollars as dollars, without rounding."""
    return usd_bytes(nanousd).decode()


def usd_bytes(nanousd: int) -> bytes:
    """Return the text of `usd` as bytes."""
    return billionths(nanousd) if nanousd >= 0 else b"-" + billionths(-nanousd)
