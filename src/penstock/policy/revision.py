"""The number that orders every change of accounts and keys (see migrations/0001)."""

from penstock.store import Transaction


async def next_revision(transaction: Transaction) -> int:
    """Take the next number. Its row is locked until the transaction ends: take it first, be quick.

    That lock makes writers wait for each other, so that numbers appear in order and a reader that
    asks for what is newer than the last number it saw cannot pass over a slower writer's row. It
    also means that writers cannot deadlock: all of them begin here.
    """
    row = await transaction.fetch_one(
        "update policy_revision set revision = revision + 1 returning revision"
    )
    assert row is not None, "policy_revision has lost its row"
    return int(row[0])
