"""Reads figures of deliveries for `/metrics`: control's counts, and the age of the oldest."""

import msgspec

from penstock.store import Transaction


class DeliveryFigures(msgspec.Struct, frozen=True):
    """Figures of deliveries. `outcomes` counts tries by how they ended, since the cell began."""

    outcomes: dict[str, int]
    oldest_seconds: float


async def read_figures(transaction: Transaction) -> DeliveryFigures:
    rows = await transaction.fetch("select outcome, count from delivery_counts")
    oldest = await transaction.fetch_one(
        "select coalesce(extract(epoch from now() - min(created_at)), 0)::float8 from deliveries"
    )
    assert oldest is not None, "a minimum is one row"
    return DeliveryFigures({row[0]: row[1] for row in rows}, oldest[0])
