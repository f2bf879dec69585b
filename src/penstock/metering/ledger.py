"""Writes attempts into Postgres: the ledger's rows, the hourly sums, and what limits have spent.

One transaction for a batch: COPY into a temporary table, insert what is not there yet, and add to
the sums from what was inserted, nothing else. So a batch may come any number of times.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final

from penstock.metering.journal_reader import Row
from penstock.metering.queries import QUERIES
from penstock.store import Store, Transaction

_DIGITS_SECONDS: Final = 2**16 / 1000
_DAYS_REMEMBERED: Final = 2


class Ledger:
    """Remembers which of the last days have a partition; everything else is in Postgres."""

    def __init__(self, store: Store, workflows_max: int) -> None:
        self._store = store
        self._workflows_max = workflows_max
        self._days: set[date] = set()

    async def write(self, holder: str, rows: Sequence[Row]) -> int:
        """Add attempts that were journaled by `holder`; how many of them are new."""
        await self.make_days(rows)
        async with self._store.transaction() as transaction:
            await self.stage(transaction, rows)
            added = await transaction.fetch_one(QUERIES["add"], (holder,))
        assert added is not None, "a count is one row"
        return int(added[0])

    def forget_days(self) -> None:
        """Make sure of every day again: Postgres may have been put back to an earlier state."""
        self._days.clear()

    async def make_days(self, rows: Sequence[Row]) -> None:
        """Make sure that every row's day has its partition."""
        for day in sorted(days_of(rows) - self._days):
            # Apart from the batch: a table that is made is locked until its transaction ends.
            async with self._store.transaction() as transaction:
                await transaction.execute("select make_usage_day(%s)", (day,))
            # Only those of now: an old one may be dropped by retention after it was made.
            self._days = set(sorted(self._days | {day})[-_DAYS_REMEMBERED:])

    async def stage(self, transaction: Transaction, rows: Sequence[Row]) -> None:
        """Bring rows into the transaction's temporary table, their workflows' names settled."""
        await transaction.execute(QUERIES["stage"])
        await transaction.copy(QUERIES["copy"], rows)
        await self._name_workflows(transaction)

    async def _name_workflows(self, transaction: Transaction) -> None:
        """Accounts that may have further names take the new ones; the rest is `other`."""
        accounts = await transaction.fetch(QUERIES["new_workflows"], (self._workflows_max,))
        for (account,) in accounts:
            # In order of accounts, so that two drains cannot wait for each other.
            await transaction.execute(
                "select pg_advisory_xact_lock(hashtextextended(%s, 1))", (account,)
            )
            values = (account, account, self._workflows_max, account)
            await transaction.execute(QUERIES["name_workflows"], values)


def days_of(rows: Sequence[Row]) -> set[date]:
    """Rows begin with an id, and ids with their time: eight digits of it count 65.5 s each.

    Not every day from the first to the last: a clock may have stood at 1970 for a moment.
    """
    starts = [int(digits, 16) * _DIGITS_SECONDS for digits in {row[:8] for row in rows}]
    ends = [start + _DIGITS_SECONDS for start in starts]
    return {datetime.fromtimestamp(second, UTC).date() for second in (*starts, *ends)}
