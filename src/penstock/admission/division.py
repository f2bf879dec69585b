"""Divides the free amount among waiting requests. Pure, except that it reserves in the balances.

In order of arrival: a request that needs more than is free is refused, and later ones may still
fit. A grant is 2 % of what is free, or what is needed when that is more.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from penstock.admission.hold import HeldAmounts
from penstock.admission.window_balance import BalanceKey, Reading, WindowBalance
from penstock.errors import StoreUnavailable

_SLICES = 50


class Shortage(msgspec.Struct, frozen=True):
    """Why a request is refused: this balance has less than the request may need."""

    balance: WindowBalance
    needed: int
    left: int
    # The limit's amount in Postgres, which may be newer than the balance's copy.
    amount: int
    # Whether other requests hold the rest unused, so that it may become free at any moment.
    is_held: bool


Answer = Shortage | StoreUnavailable | None


class Demand(msgspec.Struct, frozen=True):
    """A request that waits for its amounts to be granted."""

    amounts: HeldAmounts
    # The result is None when the amounts are granted; they are then reserved.
    answer: asyncio.Future[Answer]

    def release(self) -> None:
        for held in self.amounts:
            held.balance.release(held.amount)


class Division(msgspec.Struct):
    """The decisions. `grants` has the new size of this worker's lease on each balance."""

    accepted: list[Demand] = msgspec.field(default_factory=list)
    refused: list[tuple[Demand, Shortage]] = msgspec.field(default_factory=list)
    # Demands on balances that were not read and have been used up meanwhile.
    again: list[Demand] = msgspec.field(default_factory=list)
    grants: list[tuple[WindowBalance, int]] = msgspec.field(default_factory=list)


def lacking(demands: Sequence[Demand]) -> list[WindowBalance]:
    """Return the hard limits' balances without room for all that is demanded of them."""
    needed: dict[BalanceKey, int] = {}
    balances: dict[BalanceKey, WindowBalance] = {}
    for demand in demands:
        for held in demand.amounts:
            balance = held.balance
            if held.amount and balance.limit.is_hard:
                needed[balance.key] = needed.get(balance.key, 0) + held.amount
                balances[balance.key] = balance
    return [balance for key, balance in balances.items() if balance.room < needed[key]]


def divide(
    demands: Sequence[Demand],
    asked: Sequence[WindowBalance],
    readings: Mapping[BalanceKey, Reading],
) -> Division:
    """Decide on every demand, and reserve for those that are accepted."""
    division = Division()
    for balance in asked:
        balance.take_in(readings[balance.key])
    for demand in demands:
        shortage, is_unsure = _first_shortage(demand, readings)
        if is_unsure:
            division.again.append(demand)
        elif shortage is not None:
            division.refused.append((demand, shortage))
        else:
            for held in demand.amounts:
                held.balance.reserve(held.amount)
            division.accepted.append(demand)
    for balance in asked:
        reading = readings[balance.key]
        grant = slice_of(reading.free, -balance.room) if reading.is_binding else 0
        balance.elsewhere = max(0, reading.free - grant)
        if grant:
            division.grants.append((balance, balance.granted + grant))
    return division


def slice_of(free: int, want: int) -> int:
    """Return how much to grant when `want` more is needed; 0 if none is, or less is free."""
    if want <= 0 or want > free:
        return 0
    return max(want, free // _SLICES)


def _first_shortage(
    demand: Demand, readings: Mapping[BalanceKey, Reading]
) -> tuple[Shortage | None, bool]:
    """Return the shortage, if any; and whether it is unsure, because Postgres was not asked."""
    for held in demand.amounts:
        balance, amount = held.balance, held.amount
        reading = readings.get(balance.key)
        if not amount or not balance.limit.is_hard or (reading and not reading.is_binding):
            continue
        left = balance.room + (reading.free if reading else 0)
        if left >= amount:
            continue
        if reading is None:
            return None, True
        is_held = reading.may_come_back(balance.used) >= amount
        return Shortage(balance, amount, max(0, left), reading.amount, is_held), False
    return None, False
