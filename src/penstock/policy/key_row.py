"""A row of the table `keys`, as the mirror reads it."""

import msgspec

from penstock.records.account import AccountId, KeyId, Role


class KeyRow(msgspec.Struct, frozen=True):
    """A key with the hash of its secret."""

    id: KeyId
    account_id: AccountId | None
    role: Role
    name: str
    secret_sha256: bytes
    is_revoked: bool
    workflow: str = ""
