"""Reads the table `limits`: its revision, and the rows that changed since a revision."""

from penstock.admission.limit_table import LimitRow
from penstock.records.account import AccountId
from penstock.records.limit import Limit, Measure, Period, Scope
from penstock.store import Transaction
from penstock.store.pool import Row

PAGE_ROWS = 5000

# A limit's revision and id.
Place = tuple[int, int]


async def read_revision(transaction: Transaction) -> int:
    row = await transaction.fetch_one("select revision from limits_revision")
    assert row is not None, "limits_revision has lost its row"
    return int(row[0])


async def read_page(transaction: Transaction, after: Place) -> tuple[list[LimitRow], Place | None]:
    """Return limits changed after a place, oldest change first, and where the next page begins.

    A row that changes while pages are read appears in a later page.
    """
    rows = await transaction.fetch(
        "select revision, is_removed, id, account, scope, value, measure, period, amount, is_hard,"
        " contract from limits where (revision, id) > (%s, %s) order by revision, id limit %s",
        (*after, PAGE_ROWS),
    )
    page = [LimitRow(limit_from(row[2:]), row[1]) for row in rows]
    return page, (rows[-1][0], rows[-1][2]) if len(rows) >= PAGE_ROWS else None


def limit_from(row: Row) -> Limit:
    """Return the record of a row, whose columns are in the order of the record's fields."""
    id, account, scope, value, measure, period, amount, is_hard, contract = row
    of = Scope(scope), value, Measure(measure), Period(period)
    return Limit(id, AccountId(account or ""), *of, amount, is_hard, contract)
