"""What one model and tier used in one period, and what it costs by the price book. Pure."""

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from penstock.records.price import ONCE, Price

# A model and a tier.
ModelTier = tuple[str, str]

_TOKENS: Final = 1_000_000
# List costs are kept in units of which so many are a nano-dollar, so that they are exact integers.
UNITS: Final = _TOKENS * ONCE


class TokenSums(NamedTuple):
    """Sums of attempts of one model and tier, as the ledger has them."""

    attempts: int
    prompt_tokens: int
    # Of prompts whose cached part the engine reported.
    prompt_tokens_known: int
    cached_tokens: int
    output_tokens: int
    charge_nanousd: int


class ModelUse(msgspec.Struct, frozen=True, kw_only=True):
    """The sums of one model and tier; costs in UNITS of a nano-dollar, unrounded."""

    attempts: int
    prompt_tokens: int
    prompt_tokens_known: int
    cached_tokens: int
    output_tokens: int
    charge_nanousd: int
    uncached_units: int
    cached_units: int
    output_units: int
    # The last price of the period, for kinds of tokens that there were none of.
    price: Price
    # Whether `price` is the price book's; if not, the charge stands for the list cost.
    is_listed: bool = True

    @property
    def uncached_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens

    @property
    def list_units(self) -> int:
        return self.uncached_units + self.cached_units + self.output_units

    @property
    def cached_share(self) -> float | None:
        """The share of the prompt that was billed as cached; None without a prompt."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def hit_ratio(self) -> float | None:
        """The share of the prompts that was cached, as engines reported it; None if none did."""
        return self.cached_tokens / self.prompt_tokens_known if self.prompt_tokens_known else None

    @property
    def token_prices(self) -> tuple[float, float, float]:
        """The mean prices of an uncached, a cached and an output token, in nano-dollars."""
        price, units = self.price, self.price.multiplier_bp / UNITS
        return (
            _mean(self.uncached_units, self.uncached_tokens, price.input_nanousd_per_mtok * units),
            _mean(
                self.cached_units, self.cached_tokens, price.cached_input_nanousd_per_mtok * units
            ),
            _mean(self.output_units, self.output_tokens, price.output_nanousd_per_mtok * units),
        )

    @staticmethod
    def rounded(units: int) -> int:
        """Return units as nano-dollars, rounded once, half up."""
        return (units + UNITS // 2) // UNITS


def model_use(sums: TokenSums, price: Price | None) -> ModelUse:
    """Return a use at one price; without one, at what a token was charged."""
    # As in `cost_nanousd`, a cached part is at most its prompt.
    cached = min(sums.cached_tokens, sums.prompt_tokens)
    uncached, tokens = sums.prompt_tokens - cached, sums.prompt_tokens + sums.output_tokens
    if price is None:
        charge = sums.charge_nanousd * UNITS if tokens else 0
        mean = sums.charge_nanousd * _TOKENS // tokens if tokens else 0
        units = [charge * each // tokens if tokens else 0 for each in (uncached, cached)]
        costs, at = (*units, charge - sum(units)), Price(mean, mean, mean)
    else:
        at, bp = price, price.multiplier_bp
        costs = (
            uncached * price.input_nanousd_per_mtok * bp,
            cached * price.cached_input_nanousd_per_mtok * bp,
            sums.output_tokens * price.output_nanousd_per_mtok * bp,
        )
    return ModelUse(
        attempts=sums.attempts,
        prompt_tokens=sums.prompt_tokens,
        prompt_tokens_known=sums.prompt_tokens_known,
        cached_tokens=cached,
        output_tokens=sums.output_tokens,
        charge_nanousd=sums.charge_nanousd,
        uncached_units=costs[0],
        cached_units=costs[1],
        output_units=costs[2],
        price=at,
        is_listed=price is not None,
    )


_SUMMED: Final = tuple(
    name for name in ModelUse.__struct_fields__ if name not in {"price", "is_listed"}
)


def merged(uses: Iterable[ModelUse]) -> ModelUse:
    """Return the sums of several uses of one model and tier; the last one's price is kept."""
    each = list(uses)
    if len(each) == 1:
        return each[0]
    sums = {name: sum(getattr(use, name) for use in each) for name in _SUMMED}
    return ModelUse(**sums, price=each[-1].price, is_listed=all(use.is_listed for use in each))


def _mean(units: int, tokens: int, otherwise: float) -> float:
    return units / (tokens * UNITS) if tokens else otherwise
