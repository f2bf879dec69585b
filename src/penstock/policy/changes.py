"""Reads for the mirror: the revision, and the accounts and keys changed since a given revision.

Rows are read in pages, so that neither the first load nor the catch-up after a long outage holds
more than one page besides the mirror itself.
"""

from collections.abc import AsyncIterator

from penstock.policy.accounts import ACCOUNT_COLUMNS, account_from
from penstock.policy.key_row import KeyRow
from penstock.records.account import Account, Role
from penstock.store import Transaction

PAGE_ROWS = 5000


async def read_revision(transaction: Transaction) -> int:
    row = await transaction.fetch_one("select revision from policy_revision")
    assert row is not None, "policy_revision has lost its row"
    return int(row[0])


async def read_accounts(transaction: Transaction, since: int) -> AsyncIterator[list[Account]]:
    """Yield pages of accounts changed after revision `since`, oldest change first."""
    after = (since + 1, "")
    while True:
        rows = await transaction.fetch(
            f"select revision, {ACCOUNT_COLUMNS}"  # noqa: S608 - constants only
            " from accounts where (revision, id) > (%s, %s) order by revision, id limit %s",
            (*after, PAGE_ROWS),
        )
        yield [account_from(row[1:]) for row in rows]
        if len(rows) < PAGE_ROWS:
            return
        after = rows[-1][:2]


async def read_keys(transaction: Transaction, since: int) -> AsyncIterator[list[KeyRow]]:
    """Yield pages of keys changed after revision `since`, oldest change first."""
    after = (since + 1, "")
    while True:
        rows = await transaction.fetch(
            "select revision, id, account_id, role, name, secret_sha256, revoked_at is not null,"
            " workflow"
            " from keys where (revision, id) > (%s, %s) and role <> 'auditor'"
            " order by revision, id limit %s",
            (*after, PAGE_ROWS),
        )
        yield [KeyRow(row[1], row[2], Role(row[3]), *row[4:]) for row in rows]
        if len(rows) < PAGE_ROWS:
            return
        after = rows[-1][:2]
