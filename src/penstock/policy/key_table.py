"""A gateway's accounts and keys in memory. Pure: the caller applies changes; it does no I/O.

Guarantees: applying a revocation removes the key from `active` for good; an account's change
applies to all its keys; the table never exceeds its limits.
"""

from collections.abc import Iterable

import msgspec

from penstock.policy.key_row import KeyRow
from penstock.records.account import Account, AccountId, Key, KeyId, Role


class KeyTable:
    """Table of accounts and keys; `active` maps the hash of a secret to its key."""

    def __init__(self, *, keys_max: int, accounts_max: int) -> None:
        self.active: dict[bytes, Key] = {}
        self.is_full = False
        self._keys_max = keys_max
        self._accounts_max = accounts_max
        self._revoked: set[bytes] = set()
        self._hashes: dict[KeyId, bytes] = {}
        self._accounts: dict[AccountId, Account] = {}
        self._hashes_by_account: dict[AccountId, set[bytes]] = {}

    def is_revoked(self, secret_sha256: bytes) -> bool:
        return secret_sha256 in self._revoked

    def find_by_id(self, id: KeyId) -> Key | None:
        """Return a key by its id, also a revoked one; None when the table does not have it."""
        known = self._hashes.get(id)
        if known is None:
            return None
        return self.active.get(known) or Key(id, Role.RUNTIME, None, is_revoked=True)

    def apply_accounts(self, accounts: Iterable[Account]) -> None:
        """Add new and changed accounts. New ones over the limit are skipped and set `is_full`."""
        for account in accounts:
            if account.id not in self._accounts:
                if len(self._accounts) >= self._accounts_max:
                    self.is_full = True
                    continue
                self._hashes_by_account[account.id] = set()
            self._accounts[account.id] = account
            for known in self._hashes_by_account[account.id]:
                self.active[known] = msgspec.structs.replace(self.active[known], account=account)

    def apply_keys(self, rows: Iterable[KeyRow]) -> None:
        """Add new and changed keys. New ones over the limit are skipped and set `is_full`.

        A key whose account is not in the table yet is skipped; the next refresh reads both.
        """
        for row in rows:
            is_new = row.secret_sha256 not in self.active and not self.is_revoked(row.secret_sha256)
            if is_new and len(self.active) + len(self._revoked) >= self._keys_max:
                self.is_full = True
            elif row.is_revoked:
                self._revoke(row)
            elif row.account_id is None:
                self._add(row, None)
            elif row.account_id in self._accounts:
                self._add(row, self._accounts[row.account_id])
                self._hashes_by_account[row.account_id].add(row.secret_sha256)

    def _add(self, row: KeyRow, account: Account | None) -> None:
        self._hashes[row.id] = row.secret_sha256
        self.active[row.secret_sha256] = Key(
            row.id, row.role, account, row.name, workflow=row.workflow
        )

    def _revoke(self, row: KeyRow) -> None:
        self._hashes[row.id] = row.secret_sha256
        self._revoked.add(row.secret_sha256)
        self.active.pop(row.secret_sha256, None)
        if row.account_id in self._hashes_by_account:
            self._hashes_by_account[row.account_id].discard(row.secret_sha256)
