"""The counter that orders all changes to accounts and keys (see migrations/0001)."""

from penstock.store import Transaction


async def next_revision(transaction: Transaction) -> int:
    """Return the next number. Its row stays locked until commit: call this first, and be quick.

    That lock serialises writers, so that numbers become visible in order, and a reader that asks
    for rows newer than the last number it read cannot skip a slower writer's row. Writers cannot
    deadlock, because all of them take this lock first.
    """
    row = await transaction.fetch_one(
        "update policy_revision set revision = revision + 1 returning revision"
    )
    assert row is not None, "policy_revision has lost its row"
    return int(row[0])
