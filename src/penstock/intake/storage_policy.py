"""Decides whether a Responses request may refer to stored state, and whether it is stored."""

from penstock.records.account import Account, Storage
from penstock.wire.apis.stored_state import StateWish, no_state


class StoragePolicy:
    """One per worker. `stores_by_default` is for requests that do not say `store`."""

    def __init__(self, *, is_on: bool = False, stores_by_default: bool = False) -> None:
        """`is_on` is False in a cell that cannot encrypt what it keeps: it stores nothing."""
        self._is_on = is_on
        self.stores_by_default = stores_by_default

    def may_store(self, account: Account) -> bool:
        return self._is_on and account.storage is not Storage.NEVER

    def is_stateful(self, account: Account, wish: StateWish) -> bool:
        """Return whether a request reads or writes state; StateUnavailable if it must not."""
        if self.may_store(account):
            return bool(wish.needs) or self.stores(wish)
        if wish.needs:
            raise no_state(wish.needs)
        return False

    def stores(self, wish: StateWish) -> bool:
        """Return whether the response is stored, in an account whose responses may be."""
        if wish.store is None:
            return self.stores_by_default or wish.is_background
        return wish.store
