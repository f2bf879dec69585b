"""The price of one request, and the only function that converts tokens to money."""

from typing import Final

from penstock.records.price_book import ONCE, Prices, Tier
from penstock.records.usage import Usage

__all__ = ["ONCE", "Price", "Prices", "Terms", "Tier", "cost_nanousd"]

# The fields of a price, in order.
Terms = tuple[int, int, int, int]

_TOKENS: Final = 1_000_000
_DIVISOR: Final = _TOKENS * ONCE


class Price:
    """The price of one request, fixed at its start and stored with its usage.

    Three prices in nano-dollars per million tokens, and a multiplier in basis points.
    """

    def __init__(
        self,
        input_nanousd_per_mtok: int = 0,
        cached_input_nanousd_per_mtok: int = 0,
        output_nanousd_per_mtok: int = 0,
        multiplier_bp: int = ONCE,
    ) -> None:
        self.input_nanousd_per_mtok: Final = input_nanousd_per_mtok
        self.cached_input_nanousd_per_mtok: Final = cached_input_nanousd_per_mtok
        self.output_nanousd_per_mtok: Final = output_nanousd_per_mtok
        self.multiplier_bp: Final = multiplier_bp
        # The prices as whole nano-dollars per token, and the remainders: small enough for
        # compiled code to multiply without allocating an object.
        self.input_whole: Final = input_nanousd_per_mtok // _TOKENS
        self.input_rest: Final = input_nanousd_per_mtok % _TOKENS
        self.cached_whole: Final = cached_input_nanousd_per_mtok // _TOKENS
        self.cached_rest: Final = cached_input_nanousd_per_mtok % _TOKENS
        self.output_whole: Final = output_nanousd_per_mtok // _TOKENS
        self.output_rest: Final = output_nanousd_per_mtok % _TOKENS

    @property
    def terms(self) -> Terms:
        return (
            self.input_nanousd_per_mtok,
            self.cached_input_nanousd_per_mtok,
            self.output_nanousd_per_mtok,
            self.multiplier_bp,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Price) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __repr__(self) -> str:
        return f"Price{self.terms}"


def cost_nanousd(usage: Usage, price: Price) -> int:
    """Return the cost of a usage: the exact sum, rounded once, half up.

    Cached tokens are a part of the prompt, billed only at the cached price. If the engine did not
    report how many were cached, none count as cached. Streams, live requests and jobs all use this
    function.
    """
    prompt = usage.prompt_tokens
    cached = usage.cached_tokens or 0
    cached = min(cached, prompt)
    uncached, output = prompt - cached, usage.completion_tokens
    whole = uncached * price.input_whole + cached * price.cached_whole + output * price.output_whole
    rest = uncached * price.input_rest + cached * price.cached_rest + output * price.output_rest
    multiplier = price.multiplier_bp
    if multiplier == ONCE:
        # The same result, computed in numbers that fit into a machine word.
        return whole + (rest + _TOKENS // 2) // _TOKENS
    total = whole * _TOKENS + rest
    return (total * multiplier + _DIVISOR // 2) // _DIVISOR
