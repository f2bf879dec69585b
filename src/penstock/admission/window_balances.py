"""One worker's balances, and which of them need attention. Pure: time is passed in.

An *open* balance has something reserved, or more granted than used: only those are checked every
second. The others are kept so that their next lease includes what was used.
"""

from collections.abc import Iterable
from itertools import islice

from penstock.admission.counted_limit import CountedLimit
from penstock.admission.hold import HeldAmounts
from penstock.admission.limit_table import LimitTable
from penstock.admission.window_balance import BalanceKey, WindowBalance
from penstock.admission.windows import window_of
from penstock.records.limit import Limit


class WindowBalances:
    """All balances by limit, value and window."""

    def __init__(self) -> None:
        self._all: dict[BalanceKey, WindowBalance] = {}
        self._open: dict[BalanceKey, WindowBalance] = {}

    def __len__(self) -> int:
        return len(self._all)

    @property
    def leases_held(self) -> int:
        return sum(balance.recorded > 0 for balance in self._all.values())

    def find(self, counted: CountedLimit, asked_at: float) -> WindowBalance:
        """Return the balance of a limit and value for a request of this time; create it if new."""
        balance = counted.balance
        if balance is None or balance.is_forgotten or not balance.is_of(asked_at):
            balance = counted.balance = self._look_up(counted.limit, counted.value, asked_at)
        return balance

    def _look_up(self, limit: Limit, value: str, asked_at: float) -> WindowBalance:
        window = window_of(limit.period, asked_at)
        balance = self._all.get((limit.id, value, window.start))
        if balance is None:
            balance = WindowBalance(limit, value, window)
            self._all[balance.key] = balance
        return balance

    def use(self, counted: CountedLimit, at: float) -> None:
        """Count a use that was not reserved. The next lease that is written includes it."""
        balance = self.find(counted, at)
        balance.reserve(1)
        balance.settle(1, 1)
        if balance.is_known:
            self._open[balance.key] = balance

    def open(self, amounts: HeldAmounts) -> None:
        """Mark these as waiting for a lease, so that they are not dropped."""
        for held in amounts:
            balance = held.balance
            balance.waiting += 1
            if balance.limit.is_hard:
                self._open[balance.key] = balance

    def close(self, amounts: HeldAmounts) -> None:
        """Undo `open` after the answer, and drop balances that are still empty."""
        for held in amounts:
            held.balance.waiting -= 1
        self.forget([held.balance for held in amounts if held.balance.is_empty])

    def due(
        self, now: float, lease_return_seconds: float, most: int
    ) -> list[tuple[WindowBalance, int]]:
        """Return balances whose lease must be written, and its new size. Their room is cut at once.

        What was not needed for a while is returned, what was used beyond the grant is added. When
        there are more than `most`, the next call returns the others.
        """
        found: list[tuple[WindowBalance, int]] = []
        for key, balance in list(self._open.items()):
            if len(found) >= most:
                break
            is_time = balance.is_changed or now - balance.watched_since >= lease_return_seconds
            if not is_time:
                continue
            if balance.is_read:
                balance.granted -= balance.unneeded()
                balance.is_changed = False
                if balance.granted != balance.recorded:
                    found.append((balance, balance.granted))
            balance.watch(now)
            if balance.is_square or not (balance.is_read or balance.is_busy):
                del self._open[key]
        return found

    def to_survey(self) -> list[WindowBalance]:
        """Return soft limits' balances that have not warned yet and were used since the survey."""
        return [
            balance
            for balance in self._all.values()
            if not balance.limit.is_hard
            and not balance.is_over
            and balance.used != balance.surveyed
        ]

    def forget(self, balances: Iterable[WindowBalance]) -> None:
        for balance in balances:
            if self._all.get(balance.key) is balance:
                balance.is_forgotten = True
                del self._all[balance.key]
                self._open.pop(balance.key, None)

    def forget_ended(self, at: float, table: LimitTable) -> None:
        """Drop balances that are no longer needed: their window is over, or their limit is gone."""
        self.forget(
            [
                balance
                for balance in self._all.values()
                if (balance.window.end <= at and not balance.is_busy)
                or table.find(balance.limit.id) is None
            ]
        )

    def forget_unused(self, pots_max: int) -> None:
        """Drop the oldest balances that can be recreated without loss, down to `pots_max`.

        Those are balances that Postgres has in full, or was never asked about: what was used of the
        latter, while it was away, is in the journal.
        """
        excess = len(self._all) - pots_max
        if excess > 0:
            unused = (
                balance
                for key, balance in self._all.items()
                if not balance.is_busy and not (balance.is_read and key in self._open)
            )
            self.forget(list(islice(unused, excess)))

    def limits_changed(self, table: LimitTable) -> None:
        """Update every balance to its limit's current settings."""
        for key, balance in self._all.items():
            limit = table.find(balance.limit.id)
            if limit is None or limit == balance.limit:
                continue
            balance.elsewhere = max(0, balance.elsewhere + limit.amount - balance.limit.amount)
            balance.limit, balance.is_changed, balance.is_over = limit, True, False
            if balance.is_read:
                self._open[key] = balance

    def lose_all(self) -> None:
        """Drop all leases: Postgres has none of this worker any more."""
        for balance in self._all.values():
            if balance.recorded > 0:
                balance.lose()
