"""Creates, lists and revokes keys in Postgres. The only writer of the table `keys`.

`create` returns a key's secret once; the table holds only its hash.
"""

import hashlib
import secrets

from penstock import errors
from penstock.clock import new_id
from penstock.policy.accounts import ACCOUNT_COLUMNS, FIND_ACCOUNT, account_from, check_name
from penstock.policy.revision import next_revision
from penstock.records.account import WORKFLOW, AccountId, Key, KeyId, Role
from penstock.store import Store
from penstock.store.pool import Row

SECRET_PREFIX = "psk_"  # noqa: S105 - prefix of every key, so that scanners find leaked ones

_OF_ACCOUNT = ", ".join(f"a.{column}" for column in ACCOUNT_COLUMNS.split(", "))
_SELECT = f"""
    select k.id, k.role, k.name, k.revoked_at is not null, k.workflow, {_OF_ACCOUNT}
    from keys k left join accounts a on a.id = k.account_id
"""  # noqa: S608 - constants only
_LIST = f"""
    {_SELECT} where %s::text is null or k.account_id = %s
    order by k.created_at, k.id limit %s
"""
_FIND = f"{_SELECT} where k.secret_sha256 = %s"
_OF_OPERATORS = f"{_SELECT} where k.role <> 'runtime' and k.revoked_at is null limit %s"
_FIND_BY_ID = f"{_SELECT} where k.id = %s"


def hash_secret(secret: bytes) -> bytes:
    """Return the hash that the table stores for a secret.

    A plain SHA-256: salts and slow hashes protect passwords that people choose. A secret of 256
    random bits cannot be guessed at any speed, and a hash without salt can be looked up, so that a
    gateway recognises a key in about a microsecond.
    """
    return hashlib.sha256(secret).digest()


class KeyBook:
    """Creates, lists and revokes keys."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create(
        self, role: Role, account_id: str | None, name: str, workflow: str = ""
    ) -> tuple[Key, str]:
        """Create a key and return it with its secret, which cannot be read again later.

        With `workflow`, all its requests belong to that workflow, whatever they say.
        """
        check_name(name)
        if role is Role.RUNTIME and account_id is None:
            raise errors.InvalidRequest("A runtime key needs an account.", param="account_id")
        if role is not Role.RUNTIME and account_id is not None:
            raise errors.InvalidRequest(
                f"An {role} key belongs to the installation: name no account.", param="account_id"
            )
        if workflow and (role is not Role.RUNTIME or not WORKFLOW.fullmatch(workflow)):
            raise errors.InvalidRequest(
                "A runtime key may be bound to a workflow: up to 64 letters, digits and . _ : / -",
                param="workflow",
            )
        secret = SECRET_PREFIX + secrets.token_urlsafe(32)
        key_id = KeyId(new_id())
        async with self._store.transaction() as transaction:
            revision = await next_revision(transaction)
            account = None
            if account_id is not None:
                row = await transaction.fetch_one(FIND_ACCOUNT, (account_id,))
                if row is None:
                    raise errors.NotFound(f"There is no account {account_id}.")
                account = account_from(row)
            await transaction.execute(
                "insert into keys (id, account_id, role, name, secret_sha256, revision, workflow)"
                " values (%s, %s, %s, %s, %s, %s, %s)",
                (
                    key_id,
                    account_id,
                    role.value,
                    name,
                    hash_secret(secret.encode()),
                    revision,
                    workflow,
                ),
            )
        return Key(key_id, role, account, name, workflow=workflow), secret

    async def revoke(self, key_id: str) -> None:
        """Revoke a key for good. Every gateway applies it within 5 s. Idempotent."""
        async with self._store.transaction() as transaction:
            revision = await next_revision(transaction)
            found = await transaction.execute(
                "update keys set revoked_at = coalesce(revoked_at, now()), revision = %s"
                " where id = %s",
                (revision, key_id),
            )
        if not found:
            raise errors.NotFound(f"There is no key {key_id}.")

    async def list(
        self, account_id: AccountId | None = None, *, limit: int = 10_000
    ) -> tuple[Key, ...]:
        """Return one account's keys, or all keys, oldest first."""
        async with self._store.transaction() as transaction:
            rows = await transaction.fetch(
                _LIST,
                (account_id, account_id, limit),
            )
        return tuple(_key(row) for row in rows)

    async def find(self, secret: bytes) -> Key | None:
        """Return the key with this secret, also a revoked one. Gateways use KeyMirror instead."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one(_FIND, (hash_secret(secret),))
        return None if row is None else _key(row)

    async def of_operators(self, *, limit: int = 10_000) -> dict[str, Key]:
        """Return the keys of operators and auditors that are not revoked, by their ids."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(_OF_OPERATORS, (limit,))
        return {key.id: key for key in map(_key, rows)}

    async def find_by_id(self, id: str) -> Key | None:
        """Return the key with this id, also a revoked one."""
        async with self._store.statement() as statement:
            row = await statement.fetch_one(_FIND_BY_ID, (id,))
        return None if row is None else _key(row)


def _key(row: Row) -> Key:
    return Key(
        id=KeyId(row[0]),
        role=Role(row[1]),
        account=None if row[5] is None else account_from(row[5:]),
        name=row[2],
        is_revoked=row[3],
        workflow=row[4],
    )
