"""Who of those that wait gets how much of what is free. Pure, but that it reserves in the pots.

In order of arrival; whoever needs more than is free is refused, and those after it may still fit.
A slice is at most 2 % of what is free, and what is needed when that is more.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from penstock.admission.hold import Claims
from penstock.admission.window_balance import PotKey, Reading, WindowBalance
from penstock.errors import StoreUnavailable

_SLICES = 50


class Shortage(msgspec.Struct, frozen=True):
    """Why a request cannot have what it may need: this pot has too little."""

    pot: WindowBalance
    needed: int
    left: int
    # The limit's amount as Postgres has it, which may be newer than the pot's.
    amount: int
    # Other requests hold the rest without having used it: it may come back at any moment.
    is_held: bool


Answer = Shortage | StoreUnavailable | None


class Demand(msgspec.Struct, frozen=True):
    """A request that waits for its claims to be granted."""

    claims: Claims
    # None when they are: they are reserved then.
    answer: asyncio.Future[Answer]

    def release(self) -> None:
        for claim in self.claims:
            claim.pot.release(claim.amount)


class Division(msgspec.Struct):
    """What was decided. `grants` is what each worker's lease in Postgres must become."""

    accepted: list[Demand] = msgspec.field(default_factory=list)
    refused: list[tuple[Demand, Shortage]] = msgspec.field(default_factory=list)
    # Pots that were not asked for have been used up meanwhile.
    again: list[Demand] = msgspec.field(default_factory=list)
    grants: list[tuple[WindowBalance, int]] = msgspec.field(default_factory=list)


def lacking(demands: Sequence[Demand]) -> list[WindowBalance]:
    """The hard pots without room for all that is demanded of them."""
    needed: dict[PotKey, int] = {}
    pots: dict[PotKey, WindowBalance] = {}
    for demand in demands:
        for claim in demand.claims:
            pot = claim.pot
            if claim.amount and pot.limit.is_hard:
                needed[pot.key] = needed.get(pot.key, 0) + claim.amount
                pots[pot.key] = pot
    return [pot for key, pot in pots.items() if pot.room < needed[key]]


def divide(
    demands: Sequence[Demand], asked: Sequence[WindowBalance], readings: Mapping[PotKey, Reading]
) -> Division:
    """Decide on every demand; what is accepted is reserved when this returns."""
    division = Division()
    for pot in asked:
        pot.take_in(readings[pot.key])
    for demand in demands:
        shortage, is_unsure = _first_shortage(demand, readings)
        if is_unsure:
            division.again.append(demand)
        elif shortage is not None:
            division.refused.append((demand, shortage))
        else:
            for claim in demand.claims:
                claim.pot.reserve(claim.amount)
            division.accepted.append(demand)
    for pot in asked:
        reading = readings[pot.key]
        grant = slice_of(reading.free, -pot.room) if reading.is_binding else 0
        pot.elsewhere = max(0, reading.free - grant)
        if grant:
            division.grants.append((pot, pot.granted + grant))
    return division


def slice_of(free: int, want: int) -> int:
    """How much to grant when `want` more is needed. Nothing when nothing is, or it cannot be."""
    if want <= 0 or want > free:
        return 0
    return max(want, free // _SLICES)


def _first_shortage(
    demand: Demand, readings: Mapping[PotKey, Reading]
) -> tuple[Shortage | None, bool]:
    """What lacks, if anything; and whether that is unsure, because Postgres was not asked."""
    for claim in demand.claims:
        pot, amount = claim.pot, claim.amount
        reading = readings.get(pot.key)
        if not amount or not pot.limit.is_hard or (reading and not reading.is_binding):
            continue
        left = pot.room + (reading.free if reading else 0)
        if left >= amount:
            continue
        if reading is None:
            return None, True
        is_held = reading.may_come_back(pot.used) >= amount
        return Shortage(pot, amount, max(0, left), reading.amount, is_held), False
    return None, False
