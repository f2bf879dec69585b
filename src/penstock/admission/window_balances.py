"""One worker's balances (pots), and which of them need attention. Pure: time is passed in.

An *open* balance has something reserved, or more granted than used: only those are checked every
second. The others are kept so that their next lease includes what was used.
"""

from collections.abc import Iterable
from itertools import islice

from penstock.admission.counted_limit import CountedLimit
from penstock.admission.hold import Claims
from penstock.admission.limit_table import LimitTable
from penstock.admission.window_balance import PotKey, WindowBalance
from penstock.admission.windows import window_of
from penstock.records.limit import Limit


class WindowBalances:
    """All balances by limit, value and window."""

    def __init__(self) -> None:
        self._all: dict[PotKey, WindowBalance] = {}
        self._open: dict[PotKey, WindowBalance] = {}

    def __len__(self) -> int:
        return len(self._all)

    @property
    def leases_held(self) -> int:
        return sum(pot.recorded > 0 for pot in self._all.values())

    def find(self, counted: CountedLimit, asked_at: float) -> WindowBalance:
        """Return the balance of a limit and value for a request of this time; create it if new."""
        pot = counted.pot
        if pot is None or pot.is_forgotten or not pot.is_of(asked_at):
            pot = counted.pot = self._look_up(counted.limit, counted.value, asked_at)
        return pot

    def _look_up(self, limit: Limit, value: str, asked_at: float) -> WindowBalance:
        window = window_of(limit.period, asked_at)
        pot = self._all.get((limit.id, value, window.start))
        if pot is None:
            pot = WindowBalance(limit, value, window)
            self._all[pot.key] = pot
        return pot

    def use(self, counted: CountedLimit, at: float) -> None:
        """Count a use that was not reserved. The next lease that is written includes it."""
        pot = self.find(counted, at)
        pot.reserve(1)
        pot.settle(1, 1)
        if pot.is_known:
            self._open[pot.key] = pot

    def open(self, claims: Claims) -> None:
        """Mark these as waiting for a lease, so that they are not dropped."""
        for claim in claims:
            pot = claim.pot
            pot.waiting += 1
            if pot.limit.is_hard:
                self._open[pot.key] = pot

    def close(self, claims: Claims) -> None:
        """Undo `open` after the answer, and drop balances that are still empty."""
        for claim in claims:
            claim.pot.waiting -= 1
        self.forget([claim.pot for claim in claims if claim.pot.is_empty])

    def due(
        self, now: float, lease_return_seconds: float, most: int
    ) -> list[tuple[WindowBalance, int]]:
        """Return balances whose lease must be written, and its new size. Their room is cut at once.

        What was not needed for a while is returned, what was used beyond the grant is added. When
        there are more than `most`, the next call returns the others.
        """
        found: list[tuple[WindowBalance, int]] = []
        for key, pot in list(self._open.items()):
            if len(found) >= most:
                break
            is_time = pot.is_changed or now - pot.watched_since >= lease_return_seconds
            if not is_time:
                continue
            if pot.is_read:
                pot.granted -= pot.unneeded()
                pot.is_changed = False
                if pot.granted != pot.recorded:
                    found.append((pot, pot.granted))
            pot.watch(now)
            if pot.is_square or not (pot.is_read or pot.is_busy):
                del self._open[key]
        return found

    def to_survey(self) -> list[WindowBalance]:
        """Return soft limits' balances that have not warned yet and were used since the survey."""
        return [
            pot
            for pot in self._all.values()
            if not pot.limit.is_hard and not pot.is_over and pot.used != pot.surveyed
        ]

    def forget(self, pots: Iterable[WindowBalance]) -> None:
        for pot in pots:
            if self._all.get(pot.key) is pot:
                pot.is_forgotten = True
                del self._all[pot.key]
                self._open.pop(pot.key, None)

    def forget_ended(self, at: float, table: LimitTable) -> None:
        """Drop balances that are no longer needed: their window is over, or their limit is gone."""
        self.forget(
            [
                pot
                for pot in self._all.values()
                if (pot.window.end <= at and not pot.is_busy) or table.find(pot.limit.id) is None
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
                pot
                for key, pot in self._all.items()
                if not pot.is_busy and not (pot.is_read and key in self._open)
            )
            self.forget(list(islice(unused, excess)))

    def limits_changed(self, table: LimitTable) -> None:
        """Update every balance to its limit's current settings."""
        for key, pot in self._all.items():
            limit = table.find(pot.limit.id)
            if limit is None or limit == pot.limit:
                continue
            pot.elsewhere = max(0, pot.elsewhere + limit.amount - pot.limit.amount)
            pot.limit, pot.is_changed, pot.is_over = limit, True, False
            if pot.is_read:
                self._open[key] = pot

    def lose_all(self) -> None:
        """Drop all leases: Postgres has none of this worker any more."""
        for pot in self._all.values():
            if pot.recorded > 0:
                pot.lose()
