"""An account with a key, for tests that run every process of a cell themselves."""

from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Role
from penstock.store import Store, StoreSettings


async def add_runtime_key(dsn: str, name: str) -> str:
    """Make an account of this name; return the secret of its key."""
    store = Store(StoreSettings(dsn=dsn))
    await store.open()
    try:
        account = await AccountBook(store).create(name)
        _, secret = await KeyBook(store).create(Role.RUNTIME, account.id, name)
    finally:
        await store.close()
    return secret
