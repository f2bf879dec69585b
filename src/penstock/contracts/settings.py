"""Settings of contracts: how fresh each gateway's copy is, and how many there may be."""

from typing import Annotated

import msgspec
from msgspec import Meta


class ContractsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings under `[contracts]`."""

    # How often each gateway asks Postgres whether another set of contracts was applied.
    refresh_seconds: Annotated[float, Meta(ge=0.05, le=60)] = 2.0
    # How many contracts a set may have.
    contracts_max: Annotated[int, Meta(ge=1, le=10_000)] = 500
    # How long one contract's file may be.
    document_bytes_max: Annotated[int, Meta(ge=1024, le=1024 * 1024)] = 64 * 1024
    # How many sets are kept, to go back to; the oldest go first.
    sets_max: Annotated[int, Meta(ge=2, le=1_000_000)] = 1000
