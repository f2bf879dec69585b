"""Refuses what is paid afterwards, such as a container's time, once an account's money is spent."""

import math

from penstock.admission.job_budgets import find_money_limits
from penstock.admission.lease_table import LeaseTable
from penstock.admission.quantity import quantity
from penstock.admission.window_balance import WindowBalance
from penstock.admission.windows import window_of
from penstock.clock import Clock
from penstock.errors import BudgetSpent
from penstock.records.account import AccountId
from penstock.records.limit import CONTAINER_HOLDER, Scope
from penstock.store import Store


class SpentBudget:
    """Checks an account's hard limits on money. Nothing is held: only what is booked counts."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._now = clock.now

    async def check(self, account: AccountId) -> None:
        """Raise BudgetSpent if one of the account's own limits on money is used up."""
        now = self._now()
        async with self._store.transaction() as transaction:
            balances = [
                WindowBalance(limit, "", window_of(limit.period, now))
                for limit in await find_money_limits(transaction, account)
                if limit.scope is Scope.ACCOUNT and limit.is_hard
            ]
            if not balances:
                return
            readings = await LeaseTable(CONTAINER_HOLDER, 0.0).read(transaction, balances)
        for balance in balances:
            reading = readings[balance.key]
            if reading.is_binding and reading.unspent(reading.own_spent) <= 0:
                limit = balance.limit
                raise BudgetSpent(
                    f"The limit of {quantity(reading.amount, limit.measure)} per {limit.period} for"
                    " this account is used up, so no container can be started or used.",
                    retry_after_seconds=max(1, math.ceil(balance.ends_at - now)),
                )
