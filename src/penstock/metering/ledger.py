"""Writes attempts into Postgres: the ledger's rows, the hourly sums, and the spend of limits.

One transaction per batch: COPY into a temporary table, insert the rows that are missing, and add
only the inserted rows to the sums. So writing the same batch again changes nothing.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Final, Protocol

from penstock.metering.journal_reader import Row
from penstock.metering.queries import QUERIES
from penstock.store import Store, Transaction

_DIGITS_SECONDS: Final = 2**16 / 1000
_DAYS_REMEMBERED: Final = 2


class DecisionTable(Protocol):
    """The port to the log of decisions, whose lines journals hold beside attempts."""

    async def make_days(self, lines: Sequence[Row]) -> None: ...

    async def write(self, transaction: Transaction, lines: Sequence[Row]) -> None: ...


class Ledger:
    """Writes batches of attempts. Its only state is which recent days have a partition."""

    def __init__(
        self, store: Store, workflows_max: int, decisions: DecisionTable | None = None
    ) -> None:
        self._store = store
        self._workflows_max = workflows_max
        self._decisions = decisions
        self._days: set[date] = set()

    async def write(self, holder: str, rows: Sequence[Row], decisions: Sequence[Row] = ()) -> int:
        """Add what the journal of `holder` has; return how many of the attempts are new."""
        await self.make_days(rows)
        if decisions:
            assert self._decisions is not None, "who has contracts has a log of decisions"
            await self._decisions.make_days(decisions)
        added = None
        async with self._store.transaction() as transaction:
            if rows:
                await self.stage(transaction, rows)
                added = await transaction.fetch_one(QUERIES["add"], (holder,))
            if decisions and self._decisions is not None:
                await self._decisions.write(transaction, decisions)
        return 0 if added is None else int(added[0])

    def forget_days(self) -> None:
        """Forget which partitions exist, because Postgres may have been restored from a backup."""
        self._days.clear()

    async def make_days(self, rows: Sequence[Row]) -> None:
        """Create the partition of every row's day, unless it exists."""
        for day in sorted(days_of(rows) - self._days):
            # Not in the batch's transaction: Postgres locks a new table until the commit.
            async with self._store.transaction() as transaction:
                await transaction.execute("select make_usage_day(%s)", (day,))
            # Only the latest days are remembered, because retention may drop an old partition.
            self._days = set(sorted(self._days | {day})[-_DAYS_REMEMBERED:])

    async def stage(self, transaction: Transaction, rows: Sequence[Row]) -> None:
        """Copy rows into the transaction's temporary table and resolve their workflow names."""
        await transaction.execute(QUERIES["stage"])
        await transaction.copy(QUERIES["copy"], rows)
        await self._name_workflows(transaction)

    async def _name_workflows(self, transaction: Transaction) -> None:
        """Register new workflow names up to each account's maximum; name the others `other`."""
        accounts = await transaction.fetch(QUERIES["new_workflows"], (self._workflows_max,))
        for (account,) in accounts:
            # Locked in order of accounts, so that two drains cannot deadlock.
            await transaction.execute(
                "select pg_advisory_xact_lock(hashtextextended(%s, 1))", (account,)
            )
            values = (account, account, self._workflows_max, account)
            await transaction.execute(QUERIES["name_workflows"], values)


def days_of(rows: Sequence[Row]) -> set[date]:
    """Return the days of rows, from the first 8 hex digits of their ids: a time in steps of 65.5 s.

    Not the range from first to last day, which is huge if a clock was at 1970 for a moment.
    """
    starts = [int(digits, 16) * _DIGITS_SECONDS for digits in {row[:8] for row in rows}]
    ends = [start + _DIGITS_SECONDS for start in starts]
    return {datetime.fromtimestamp(second, UTC).date() for second in (*starts, *ends)}
