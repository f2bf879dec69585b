"""A row of a model's price book, in the form that catalogues use."""

from datetime import date
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

ONCE: Final = 10_000

NanoUsd = Annotated[int, Meta(ge=0, le=10**15)]
BasisPoints = Annotated[int, Meta(ge=0, le=10**6)]


class Tier(StrEnum):
    """The service tier of a request; each has its own multiplier in the price book."""

    NOW = "now"
    FLEX = "flex"
    BATCH = "batch"


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of a price book. Integer nano-dollars per million tokens: 600_000_000 is $0.60.

    Multipliers are in basis points, 10_000 = once. A row is valid from 0:00 UTC of `valid_from`
    until the next row's; the first row has no `valid_from` and no start.
    """

    input_nanousd_per_mtok: NanoUsd = 0
    cached_input_nanousd_per_mtok: NanoUsd = 0
    output_nanousd_per_mtok: NanoUsd = 0
    now_bp: BasisPoints = ONCE
    flex_bp: BasisPoints = 5_000
    batch_bp: BasisPoints = 5_000
    valid_from: date | None = None
