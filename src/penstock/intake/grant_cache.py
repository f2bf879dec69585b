"""Caches each key's grant for a model, and the values derived from it, until something changes."""

from typing import Final

from penstock.policy import KeyMirror, authorize
from penstock.records.account import Account, Key, KeyId
from penstock.records.grant import Grant
from penstock.records.model import Model
from penstock.wire.prompt.chain import digest

KEYS_MAX: Final = 4096


class CachedGrant:
    """A key's grant for a model. Valid for these objects only: a change makes new ones."""

    def __init__(
        self, key: Key, account: Account, model: Model, account_in_path: str | None, grant: Grant
    ) -> None:
        self.key = key
        self.account = account
        self.model = model
        self.account_in_path = account_in_path
        self.grant = grant
        self.image_tokens = model.image_tokens_max
        # The seed is the account's own, so no other account's digests are the same.
        self.seed = digest(grant.cache_salt)
        self.root = digest(model.id, self.seed)


class GrantCache:
    """Caches each key's last model. A key that changed or whose account did is a new object."""

    def __init__(self, keys: KeyMirror) -> None:
        self._keys = keys
        self._by_key: dict[KeyId, CachedGrant] = {}

    def find(self, key: Key, model: Model, account_in_path: str | None) -> CachedGrant:
        """Return the grant, or raise policy's refusal, which is never cached."""
        granted = self._by_key.get(key.id)
        if (
            granted is not None
            and granted.key is key
            and granted.model is model
            and granted.account_in_path == account_in_path
        ):
            return granted
        return self._make(key, model, account_in_path)

    def _make(self, key: Key, model: Model, account_in_path: str | None) -> CachedGrant:
        account = key.account
        salt = self._keys.salt_for(account.id) if account is not None else ""
        grant = authorize(key, model, salt, account_in_path)
        assert account is not None, "authorize grants nothing to a key without one"
        granted = CachedGrant(key, account, model, account_in_path, grant)
        if len(self._by_key) >= KEYS_MAX:
            self._by_key.clear()
        self._by_key[key.id] = granted
        return granted
