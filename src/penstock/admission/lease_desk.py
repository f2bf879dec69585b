"""A worker's operations on its leases in Postgres: ask, return, renew, read what was spent.

One loop calls them one by one, so no two transactions of a worker write the same lease. Each call
is one short transaction of at most `pots_batch_max` rows, and returns whether that was all.
"""

from collections.abc import Sequence

from penstock.admission.division import Demand, Division, divide, lacking
from penstock.admission.lease_table import FIRST, LeaseTable
from penstock.admission.settings import AdmissionSettings
from penstock.admission.window_balance import WindowBalance
from penstock.admission.window_balances import WindowBalances
from penstock.clock import Clock
from penstock.errors import Superseded
from penstock.store import Store


class LeaseDesk:
    """Keeps `balances` and the table `leases` consistent, also when it raises StoreUnavailable.

    `round_trips` counts the transactions that asked for leases.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: AdmissionSettings,
        holder: str,
        balances: WindowBalances,
    ) -> None:
        self.round_trips = 0
        self._store = store
        self._clock = clock
        self._settings = settings
        self._balances = balances
        self._leases = LeaseTable(holder, settings.lease_seconds)
        self._swept = FIRST
        self._to_survey: list[WindowBalance] = []

    @property
    def is_surveyed(self) -> bool:
        """Whether `find_passed` has read all balances that it found when it began."""
        return not self._to_survey

    async def serve(self, demands: Sequence[Demand]) -> list[Demand]:
        """Answer demands; return those that must be asked for again."""
        waiting = [each for each in demands if not each.answer.done()]
        # A waiting client may leave meanwhile; a grant must still find its balance.
        for demand in waiting:
            self._balances.open(demand.amounts)
        try:
            return await self._answer(waiting)
        except Superseded:
            await self.renew()
            return waiting
        finally:
            for demand in waiting:
                self._balances.close(demand.amounts)

    async def give_back(self) -> bool:
        """Return what was not needed for a while, and record what was used beyond the grant."""
        settings = self._settings
        now = self._clock.monotonic()
        due = self._balances.due(now, settings.lease_return_seconds, settings.pots_batch_max)
        if not due:
            return True
        try:
            async with self._store.transaction() as transaction:
                await self._leases.write(transaction, due)
        except Superseded:
            return await self.renew()
        for balance, granted in due:
            balance.recorded = granted
        return len(due) < settings.pots_batch_max

    async def renew(self) -> bool:
        """Extend this worker's leases, and detect that they were taken away."""
        async with self._store.transaction() as transaction:
            if not await self._leases.renew(transaction):
                # Before the commit: even if its answer is lost, no lease is relied on.
                self._balances.lose_all()
        return True

    async def sweep(self) -> bool:
        """Delete our leases that count for nothing: those of past windows, or wholly spent."""
        settings = self._settings
        # A request that arrived just before a window's end may be counted a little later.
        at = self._clock.now() - settings.lease_seconds
        async with self._store.transaction() as transaction:
            swept = await self._leases.sweep(transaction, self._swept, at, settings.pots_batch_max)
        self._swept = swept or FIRST
        return swept is None

    async def find_passed(self) -> list[WindowBalance]:
        """Return the balances of soft limits that were exceeded."""
        found, most = self._to_survey or self._balances.to_survey(), self._settings.pots_batch_max
        balances, self._to_survey = found[:most], found[most:]
        if not balances:
            return []
        used = [balance.used for balance in balances]
        async with self._store.transaction() as transaction:
            readings = await self._leases.read(transaction, balances)
        for balance, surveyed in zip(balances, used, strict=True):
            balance.surveyed = surveyed
            balance.elsewhere = readings[balance.key].unspent(balance.used)
            balance.is_over = balance.elsewhere < 0
        return [balance for balance in balances if balance.is_over]

    async def _answer(self, demands: Sequence[Demand]) -> list[Demand]:
        division = await self._ask(demands)
        now = self._clock.monotonic()
        for balance, granted in division.grants:
            balance.take_grant(granted, now)
        for demand in division.accepted:
            if demand.answer.done():
                # The waiting client has left meanwhile.
                demand.release()
            else:
                demand.answer.set_result(None)
        for demand, shortage in division.refused:
            if not demand.answer.done():
                demand.answer.set_result(shortage)
        return division.again

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
            for balance, granted in division.grants:
                # It may have been committed; as `granted` differs from it, it will be returned.
                balance.recorded = granted
            raise
        return division
