"""What tokens cost. The only way from tokens to money."""

from typing import Final

from penstock.records.price_book import ONCE, BasisPoints, NanoUsd, Price, Prices, Tier
from penstock.records.usage import Usage

__all__ = ["ONCE", "BasisPoints", "NanoUsd", "Price", "Prices", "Tier", "cost_nanousd"]

_TOKENS: Final = 1_000_000
_DIVISOR: Final = _TOKENS * ONCE


def cost_nanousd(usage: Usage, price: Price) -> int:
    """What this usage costs: everything is added up first and rounded once, half up.

    Cached tokens are a part of the prompt, and billed as such once. When the engine did not say
    how many were cached, none are taken for cached. Stream or not, now or later: there is no other
    way from tokens to money.
    """
    prompt = usage.prompt_tokens
    cached = usage.cached_tokens or 0
    cached = min(cached, prompt)
    total = (
        (prompt - cached) * price.input_nanousd_per_mtok
        + cached * price.cached_input_nanousd_per_mtok
        + usage.completion_tokens * price.output_nanousd_per_mtok
    )
    multiplier = price.multiplier_bp
    if multiplier == ONCE:
        # The same, in numbers that fit into a machine's word.
        return (total + _TOKENS // 2) // _TOKENS
    return (total * multiplier + _DIVISOR // 2) // _DIVISOR
