"""Creates the account and keys of `penstock up`: the same in every run of a state folder."""

from penstock.cli.up.state import Credentials, UpState
from penstock.policy import AccountBook, KeyBook
from penstock.records.account import AccountId, Role
from penstock.store import Store

_NAME = "local"


async def first_account(store: Store, state: UpState) -> tuple[Credentials, bool]:
    """Return the credentials, and whether they were made now.

    Only the secrets of `up`'s own two keys are kept, all others are shown once: `up` is a laptop's
    tool, and a user who can read its files can read the database too.
    """
    kept = state.read_credentials()
    if kept is not None and await _is_valid(store, kept):
        return kept, False
    account = await AccountBook(store).create(_NAME)
    key, secret = await KeyBook(store).create(Role.RUNTIME, account.id, _NAME)
    made = Credentials(account.id, key.id, secret)
    state.write_credentials(made)
    return made, True


async def make_operator_key(store: Store, state: UpState) -> None:
    """Keep a key that signs in to the console, unless the one that is kept is valid.

    Only for the embedded database: whoever may read a file here administers no other one.
    """
    book, kept = KeyBook(store), state.read_operator_key()
    found = await book.find(kept.encode()) if kept else None
    if found is None or found.is_revoked or found.role is not Role.OPERATOR:
        _, secret = await book.create(Role.OPERATOR, None, _NAME)
        state.write_operator_key(secret)


async def _is_valid(store: Store, kept: Credentials) -> bool:
    """Return False if the database is another one, or the key was revoked."""
    keys = await KeyBook(store).list(AccountId(kept.account))
    return any(key.id == kept.key and not key.is_revoked for key in keys)
