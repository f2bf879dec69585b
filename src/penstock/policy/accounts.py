"""Creates, reads and changes accounts in Postgres. The only writer of the table `accounts`."""

import re
from typing import Literal

from penstock import errors
from penstock.clock import new_id
from penstock.policy.revision import next_revision
from penstock.records.account import Account, AccountId, Affinity, OnOutage, Storage
from penstock.store import Store
from penstock.store.pool import Row

NAME_CHARACTERS_MAX = 200
FLEX_WEIGHT_MAX = 1000

_ID = re.compile(r"[0-9a-f]{32}")
# The columns that `account_from` reads.
ACCOUNT_COLUMNS = "id, name, is_blocked, on_outage, affinity, flex_weight, has_usage_cost, storage"
_CREATE = """
    insert into accounts (id, name, on_outage, revision) values (%s, %s, %s, %s)
    on conflict (id) do nothing
"""
_LIST = f"select {ACCOUNT_COLUMNS} from accounts order by created_at, id limit %s"  # noqa: S608 - constants only
_NAMED = f"""
    select {ACCOUNT_COLUMNS} from accounts where name = %s order by created_at, id limit %s
"""  # noqa: S608 - constants only
FIND_ACCOUNT = f"select {ACCOUNT_COLUMNS} from accounts where id = %s"  # noqa: S608 - constants only


_Changeable = Literal[
    "is_blocked", "on_outage", "affinity", "flex_weight", "has_usage_cost", "storage"
]


class AccountBook:
    """Creates, lists, blocks and changes accounts."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create(
        self, name: str, id: str | None = None, on_outage: OnOutage = OnOutage.CONTINUE
    ) -> Account:
        """Create an account. Ids look like Workers AI's: 32 hexadecimal characters."""
        check_name(name)
        account_id = AccountId(new_id().replace("-", "") if id is None else id)
        if not _ID.fullmatch(account_id):
            raise errors.InvalidRequest(
                "An account id is 32 characters of 0-9 and a-f.", param="id"
            )
        async with self._store.transaction() as transaction:
            revision = await next_revision(transaction)
            made = await transaction.execute(_CREATE, (account_id, name, on_outage.value, revision))
        if not made:
            raise errors.InvalidRequest(f"There is an account {account_id} already.", param="id")
        return Account(account_id, name, on_outage=on_outage)

    async def list(self, *, limit: int = 10_000) -> tuple[Account, ...]:
        """Return accounts, oldest first."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(_LIST, (limit,))
        return tuple(account_from(row) for row in rows)

    async def find(self, id: str) -> Account | None:
        async with self._store.statement() as statement:
            row = await statement.fetch_one(FIND_ACCOUNT, (id,))
        return None if row is None else account_from(row)

    async def named(self, name: str, *, limit: int = 10) -> tuple[Account, ...]:
        """Return the accounts of that name, oldest first; names need not be unique."""
        async with self._store.statement() as statement:
            rows = await statement.fetch(_NAMED, (name, limit))
        return tuple(account_from(row) for row in rows)

    async def set_blocked(self, id: str, is_blocked: bool) -> Account:
        """Block or unblock an account. Every gateway applies the change within 5 s."""
        return await self._change("is_blocked", is_blocked, id)

    async def set_on_outage(self, id: str, on_outage: OnOutage) -> Account:
        """Set what happens when the account's leases run out while Postgres is unreachable."""
        return await self._change("on_outage", on_outage.value, id)

    async def set_affinity(self, id: str, affinity: Affinity) -> Account:
        """Set how strictly the account's sessions stay on their replicas."""
        return await self._change("affinity", affinity.value, id)

    async def set_flex_weight(self, id: str, flex_weight: int) -> Account:
        """Set the account's share in the fair order of jobs. Queued jobs keep their place."""
        if not 1 <= flex_weight <= FLEX_WEIGHT_MAX:
            raise errors.InvalidRequest(
                f"A flex weight is 1 to {FLEX_WEIGHT_MAX}.", param="flex_weight"
            )
        return await self._change("flex_weight", flex_weight, id)

    async def set_usage_cost(self, id: str, has_usage_cost: bool) -> Account:
        """Set whether the account's answers have their cost in `usage`."""
        return await self._change("has_usage_cost", has_usage_cost, id)

    async def set_storage(self, id: str, storage: Storage) -> Account:
        """Set whether the account's responses may be stored. What is stored stays: see `forget`."""
        return await self._change("storage", storage.value, id)

    async def _change(self, column: _Changeable, value: bool | int | str, id: str) -> Account:
        statement = f"""
            update accounts set {column} = %s, revision = %s where id = %s
            returning {ACCOUNT_COLUMNS}
        """  # noqa: S608 - constants only
        async with self._store.transaction() as transaction:
            revision = await next_revision(transaction)
            row = await transaction.fetch_one(statement, (value, revision, id))
        return _found(row, id)


def account_from(row: Row) -> Account:
    """Return the account in `row`, whose columns are in the order of the record's fields."""
    id, name, is_blocked, on_outage, affinity, weight, has_usage_cost, storage = row
    return Account(
        id,
        name,
        is_blocked,
        OnOutage(on_outage),
        Affinity(affinity),
        weight,
        has_usage_cost=has_usage_cost,
        storage=Storage(storage),
    )


def check_name(name: str) -> None:
    """Refuse a name that is empty, too long, or not printable in a terminal table."""
    if not name or len(name) > NAME_CHARACTERS_MAX or not name.isprintable():
        raise errors.InvalidRequest(
            f"A name is 1 to {NAME_CHARACTERS_MAX} printable characters.", param="name"
        )


def _found(row: Row | None, id: str) -> Account:
    if row is None:
        raise errors.NotFound(f"There is no account {id}.")
    return account_from(row)
