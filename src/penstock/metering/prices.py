"""The one function from usage and prices to money, in integers. Pure.

Prices are nano-dollars per million tokens; a multiplier is in basis points (10,000 = once).
Everything is added up first and rounded once, half up.
"""

from typing import Final

from penstock.records.model import Prices
from penstock.records.usage import Usage

ONCE: Final = 10_000
_TOKENS_PER_MTOK: Final = 10**6
_NANOUSD_PER_USD: Final = 10**9


def cost_nanousd(usage: Usage, prices: Prices, *, multiplier_bp: int = ONCE) -> int:
    """What this usage costs. Cached tokens are a part of the prompt, and billed as such once.

    When the engine did not say how many were cached, none are taken for cached.
    """
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    uncached = usage.prompt_tokens - cached
    total = (
        uncached * prices.input_nanousd_per_mtok
        + cached * prices.cached_input_nanousd_per_mtok
        + usage.completion_tokens * prices.output_nanousd_per_mtok
    ) * multiplier_bp
    divisor = _TOKENS_PER_MTOK * ONCE
    return (total + divisor // 2) // divisor


def usd(nanousd: int) -> str:
    """Nano-dollars as dollars, every digit of them."""
    return f"{nanousd // _NANOUSD_PER_USD}.{nanousd % _NANOUSD_PER_USD:09d}"
