"""Operators' controls of a model's pullers. The only writer of the table `flex_controls`."""

from typing import Final

import msgspec

from penstock.records.model import ModelId
from penstock.store import Transaction

_READ: Final = (
    "select model, is_paused, in_flight_max from flex_controls order by model limit 10000"
)
_WRITE: Final = """
    insert into flex_controls (model, is_paused, in_flight_max) values (%s, %s, %s)
    on conflict (model) do update
    set is_paused = excluded.is_paused, in_flight_max = excluded.in_flight_max
"""


class FlexControl(msgspec.Struct, frozen=True):
    """Pauses a model's jobs; `in_flight_max` limits how many run at a time on each replica."""

    is_paused: bool = False
    in_flight_max: int | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether no job of the model begins."""
        return self.is_paused or self.in_flight_max == 0


async def read(tx: Transaction) -> dict[ModelId, FlexControl]:
    """Return the controls by model; a model without one is not restricted."""
    rows = await tx.fetch(_READ)
    return {ModelId(model): FlexControl(*said) for model, *said in rows}


async def write(tx: Transaction, model: ModelId, control: FlexControl) -> None:
    """Set a model's control, replacing the previous one."""
    await tx.execute(_WRITE, (model, control.is_paused, control.in_flight_max))
