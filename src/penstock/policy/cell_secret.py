"""The cell's secret, and all that is derived from it. The secret itself is sent nowhere."""

import hmac

from penstock.store import Transaction


async def read_cell_secret(transaction: Transaction) -> bytes:
    row = await transaction.fetch_one("select secret from cell")
    assert row is not None, "cell has lost its row"
    return bytes(row[0])


def cell_mark(secret: bytes) -> str:
    """A name for the cell that gives nothing of its secret away."""
    return _derived(secret, "cell mark").hex()


def signal_key(secret: bytes) -> bytes:
    """What the signals of the cell are sealed with."""
    return _derived(secret, "signals")


def account_salt(secret: bytes, account: str) -> str:
    """What keeps an account's cached prefixes apart from everybody else's."""
    return _derived(secret, account).hex()


def _derived(secret: bytes, purpose: str) -> bytes:
    return hmac.digest(secret, purpose.encode(), "sha256")
