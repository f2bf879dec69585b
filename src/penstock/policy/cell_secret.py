"""The cell's secret, and the keys derived from it. The secret itself is never sent anywhere."""

import hmac

from penstock.store import Transaction


async def read_cell_secret(transaction: Transaction) -> bytes:
    row = await transaction.fetch_one("select secret from cell")
    assert row is not None, "cell has lost its row"
    return bytes(row[0])


async def read_console_secret(transaction: Transaction) -> bytes:
    """Return the key that authenticates the cookies of the console.

    Gateways and keepers read the cell's secret, so cookies have one of their own: with it they
    could sign in as anybody.
    """
    row = await transaction.fetch_one("select secret from console_secret")
    assert row is not None, "console_secret has lost its row"
    return bytes(row[0])


def cell_mark(secret: bytes) -> str:
    """Return a name for the cell that does not reveal its secret."""
    return _derived(secret, "cell mark").hex()


def signal_key(secret: bytes) -> bytes:
    """Return the key that authenticates the cell's signals."""
    return _derived(secret, "signals")


def account_salt(secret: bytes, account: str) -> str:
    """Return the salt that separates an account's cached prefixes from other accounts'."""
    return _derived(secret, account).hex()


def _derived(secret: bytes, purpose: str) -> bytes:
    return hmac.digest(secret, purpose.encode(), "sha256")
