"""Operations on flex work: pause, resume and limit it, model by model."""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from penstock.console.operation import Nothing, Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.queue import FlexControl, FlexStats
from penstock.records.model import ModelId


class ShownControl(msgspec.Struct, frozen=True):
    """One model's flex work."""

    model: ModelId
    control: FlexControl
    stats: FlexStats | None


class FlexAnswer(msgspec.Struct, frozen=True):
    """Flex work of every model that has or had some."""

    models: list[ShownControl]


class FlexChange(OperatorQuestion, frozen=True, kw_only=True):
    """What to change of a model's flex work; `in_flight_max` null removes that limit."""

    model: str
    is_paused: bool | UnsetType = UNSET
    in_flight_max: Annotated[int, Meta(ge=0, le=2**31 - 1)] | UnsetType | None = UNSET


async def _show(rooms: OperatorRooms, _: Nothing) -> FlexAnswer:
    async with rooms.store.transaction() as transaction:
        controls = await rooms.queue.controls(transaction)
        stats = await rooms.queue.stats(transaction)
    return FlexAnswer(
        [
            ShownControl(model, controls.get(model, FlexControl()), stats.get(model))
            for model in sorted(controls.keys() | stats.keys())
        ]
    )


async def _change(rooms: OperatorRooms, asked: FlexChange) -> ShownControl:
    model = rooms.catalogue().find(asked.model).id
    async with rooms.store.transaction() as transaction:
        control = (await rooms.queue.controls(transaction)).get(model, FlexControl())
        if asked.is_paused is not UNSET:
            control = msgspec.structs.replace(control, is_paused=asked.is_paused)
        if asked.in_flight_max is not UNSET:
            control = msgspec.structs.replace(control, in_flight_max=asked.in_flight_max)
        await rooms.queue.set_control(transaction, model, control)
    return ShownControl(model, control, None)


SHOW_FLEX = Operation(
    name="show_flex",
    summary="Show every model's flex work: what waits and runs, and what is paused or limited.",
    method="GET",
    path="/flex",
    question=Nothing,
    answer=FlexAnswer,
    run=_show,
)
CHANGE_FLEX = Operation(
    name="change_flex",
    summary="Pause, resume or limit a model's flex work. Every keeper applies it within 2 s.",
    method="PATCH",
    path="/flex",
    question=FlexChange,
    answer=ShownControl,
    run=_change,
)
FLEX_OPERATIONS = (SHOW_FLEX, CHANGE_FLEX)
