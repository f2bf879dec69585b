"""Divides the free amount among waiting requests. Pure, except that it reserves in the balances.

In order of arrival: a request that needs more than is free is refused, and later ones may still
fit. A grant is 2 % of what is free, or what is needed when that is more.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from penstock.admission.hold import Claims
from penstock.admission.window_balance import PotKey, Reading, WindowBalance
from penstock.errors import StoreUnavailable

_SLICES = 50


class Shortage(msgspec.Struct, frozen=True):
    """Why a request is refused: this balance has less than the request may need."""

    pot: WindowBalance
    needed: int
    left: int
    # The limit's amount in Postgres, which may be newer than the balance's copy.
    amount: int
    # Whether other requests hold the rest unused, so that it may become free at any moment.
    is_held: bool


Answer = Shortage | StoreUnavailable | None


class Demand(msgspec.Struct, frozen=True):
    """A request that waits for its claims to be granted."""

    claims: Claims
    # The result is None when the claims are granted; they are then reserved.
    answer: asyncio.Future[Answer]

    def release(self) -> None:
        for claim in self.claims:
            claim.pot.release(claim.amount)


class Division(msgspec.Struct):
    """The decisions. `grants` has the new size of this worker's lease on each balance."""

    accepted: list[Demand] = msgspec.field(default_factory=list)
    refused: list[tuple[Demand, Shortage]] = msgspec.field(default_factory=list)
    # Demands on balances that were not read and have been used up meanwhile.
    again: list[Demand] = msgspec.field(default_factory=list)
    grants: list[tuple[WindowBalance, int]] = msgspec.field(default_factory=list)


def lacking(demands: Sequence[Demand]) -> list[WindowBalance]:
    """Return the hard limits' balances without room for all that is demanded of them."""
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
    """Decide on every demand, and reserve for those that are accepted."""
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
    """Return how much to grant when `want` more is needed; 0 if none is, or less is free."""
    if want <= 0 or want > free:
        return 0
    return max(want, free // _SLICES)


def _first_shortage(
    demand: Demand, readings: Mapping[PotKey, Reading]
) -> tuple[Shortage | None, bool]:
    """Return the shortage, if any; and whether it is unsure, because Postgres was not asked."""
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
