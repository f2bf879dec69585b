"""What a worker reads of the table `limits`: its revision, and what changed since one."""

from collections.abc import AsyncIterator

from penstock.admission.limit_table import LimitRow
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.store import Transaction
from penstock.store.pool import Row

PAGE_ROWS = 5000


async def read_revision(transaction: Transaction) -> int:
    row = await transaction.fetch_one("select revision from limits_revision")
    assert row is not None, "limits_revision has lost its row"
    return int(row[0])


async def read_limits(transaction: Transaction, since: int) -> AsyncIterator[list[LimitRow]]:
    """Limits newer than a revision, oldest change first."""
    after = (since + 1, 0)
    while True:
        rows = await transaction.fetch(
            "select revision, is_removed, id, account, scope, value, measure, period, amount,"
            " is_hard from limits where (revision, id) > (%s, %s) order by revision, id limit %s",
            (*after, PAGE_ROWS),
        )
        yield [LimitRow(limit_from(row[2:]), row[1]) for row in rows]
        if len(rows) < PAGE_ROWS:
            return
        after = (rows[-1][0], rows[-1][2])


def limit_from(row: Row) -> Limit:
    """A record out of a row, in the order of the record's fields."""
    id, account, scope, value, measure, period, amount, is_hard = row
    return Limit(
        id, account, Scope(scope), value, Measure(measure), Period(period), amount, is_hard
    )
