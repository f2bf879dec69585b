"""What tokens cost: a row of a model's price book, and the price of one request."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from penstock.records.usage import Usage

ONCE: Final = 10_000

NanoUsd = Annotated[int, Meta(ge=0, le=10**15)]
BasisPoints = Annotated[int, Meta(ge=0, le=10**6)]


class Tier(StrEnum):
    """How soon an answer is wanted; each has its own multiplier in the price book."""

    NOW = "now"
    FLEX = "flex"
    BATCH = "batch"


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of a price book. Integer nano-dollars per million tokens: 600_000_000 is $0.60.

    Multipliers are in basis points, 10_000 = once. A row holds from 0:00 UTC of `valid_from` until
    the next row's; the first row has none and holds from ever.
    """

    input_nanousd_per_mtok: NanoUsd = 0
    cached_input_nanousd_per_mtok: NanoUsd = 0
    output_nanousd_per_mtok: NanoUsd = 0
    now_bp: BasisPoints = ONCE
    flex_bp: BasisPoints = 5_000
    batch_bp: BasisPoints = 5_000
    valid_from: date | None = None


class Price(msgspec.Struct, frozen=True, array_like=True):
    """What one request pays: fixed at its start, kept with its usage."""

    input_nanousd_per_mtok: int = 0
    cached_input_nanousd_per_mtok: int = 0
    output_nanousd_per_mtok: int = 0
    multiplier_bp: int = ONCE


_DIVISOR: Final = 10**6 * ONCE


def cost_nanousd(usage: Usage, price: Price) -> int:
    """What this usage costs: everything is added up first and rounded once, half up.

    Cached tokens are a part of the prompt, and billed as such once. When the engine did not say
    how many were cached, none are taken for cached. Stream or not, now or later: there is no other
    way from tokens to money.
    """
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    total = (
        (usage.prompt_tokens - cached) * price.input_nanousd_per_mtok
        + cached * price.cached_input_nanousd_per_mtok
        + usage.completion_tokens * price.output_nanousd_per_mtok
    ) * price.multiplier_bp
    return (total + _DIVISOR // 2) // _DIVISOR
