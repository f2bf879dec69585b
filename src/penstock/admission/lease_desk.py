"""What a worker does about its leases in Postgres: ask, give back, renew, read what was spent.

One thing at a time, called by one loop: no two transactions of a worker write the same lease.
"""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from penstock.admission.division import Demand, Division, divide, lacking
from penstock.admission.lease_table import LeaseTable
from penstock.admission.limit_table import LimitTable
from penstock.admission.pot import Pot
from penstock.admission.pots import Pots
from penstock.admission.settings import Settings
from penstock.clock import Clock
from penstock.store import Store

_Item = TypeVar("_Item")


class LeaseDesk:
    """Keeps `pots` and the table `leases` in step. Raises StoreUnavailable; nothing is lost then.

    `round_trips` counts the transactions that asked for leases.
    """

    def __init__(
        self, store: Store, clock: Clock, settings: Settings, holder: str, pots: Pots
    ) -> None:
        self.round_trips = 0
        self._store = store
        self._clock = clock
        self._settings = settings
        self._pots = pots
        self._leases = LeaseTable(holder, settings.lease_seconds)

    async def serve(self, demands: Sequence[Demand]) -> list[Demand]:
        """Answer demands; returns those that must be asked for again."""
        division = await self._ask([each for each in demands if not each.answer.done()])
        now = self._clock.monotonic()
        for pot, granted in division.grants:
            pot.take_grant(granted, now)
        for demand in division.accepted:
            if demand.answer.done():
                # Whoever waited has left meanwhile.
                demand.release()
            else:
                demand.answer.set_result(None)
        for demand, shortage in division.refused:
            if not demand.answer.done():
                demand.answer.set_result(shortage)
        return division.again

    async def give_back(self) -> None:
        """Return what nobody needed for a while, and tell of what was used beyond the grant."""
        due = self._pots.due(self._clock.monotonic(), self._settings.lease_return_seconds)
        for batch in self._batches(due):
            async with self._store.transaction() as transaction:
                await self._leases.write(transaction, batch)
            for pot, granted in batch:
                pot.recorded = granted

    async def renew(self) -> None:
        """Say that this worker lives, and learn of leases that were taken from it."""
        async with self._store.transaction() as transaction:
            leased = await self._leases.renew(transaction)
        self._pots.lose_all_but(leased)

    async def drop_ended(self, table: LimitTable) -> None:
        """Forget pots of windows that are over and of limits that are gone, and their leases."""
        # A request that was asked just before the end may come a little later.
        at = self._clock.now() - self._settings.lease_seconds
        for batch in self._batches(self._pots.ended(at, table)):
            async with self._store.transaction() as transaction:
                await self._leases.delete(transaction, batch)
            self._pots.forget(batch)
        self._pots.forget_unused(self._settings.pots_max)

    async def find_passed(self) -> list[Pot]:
        """Pots of limits that only warn, of which more was spent than they say."""
        passed = []
        for batch in self._batches(self._pots.to_survey()):
            used = [pot.used for pot in batch]
            async with self._store.transaction() as transaction:
                readings = await self._leases.read(transaction, batch)
            for pot, surveyed in zip(batch, used, strict=True):
                reading = readings[pot.key]
                pot.surveyed = surveyed
                pot.elsewhere = left = reading.unspent(pot.used)
                pot.is_over = left < 0
                if pot.is_over:
                    passed.append(pot)
        return passed

    async def _ask(self, demands: Sequence[Demand]) -> Division:
        asked = lacking(demands)
        if not asked:
            return divide(demands, (), {})
        self.round_trips += 1
        division = Division()
        try:
            async with self._store.transaction() as transaction:
                await self._leases.lock(transaction, asked)
                readings = await self._leases.read(transaction, asked)
                division = divide(demands, asked, readings)
                if division.grants:
                    await self._leases.write(transaction, division.grants)
        except BaseException:
            for demand in division.accepted:
                demand.release()
            for pot, granted in division.grants:
                # It may have been committed. As it is not what we count on, it will be given back.
                pot.recorded = granted
            raise
        return division

    def _batches(self, items: list[_Item]) -> Iterator[list[_Item]]:
        size = self._settings.pots_batch_max
        return (items[first : first + size] for first in range(0, len(items), size))
