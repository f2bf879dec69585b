"""Operations on keys."""

from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from penstock.clock import timestamp_of
from penstock.console.operation import Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.policy.account_names import find_account_if_given
from penstock.records.account import Key, Role

_LOOKED_BACK: Final = timedelta(days=30)


class ShownKey(msgspec.Struct, frozen=True, kw_only=True):
    """A key without its secret. An operator's or auditor's key has no account."""

    id: str
    role: Role
    account: str | None
    account_name: str | None
    name: str
    is_revoked: bool
    # The only workflow that its requests may belong to; "" is any.
    workflow: str
    created_at: datetime
    # The hour of its last request, if that is within 30 days; not known of a key just created.
    last_used_at: datetime | None = None


class CreatedKey(msgspec.Struct, frozen=True):
    """A new key, with its secret, which is kept nowhere."""

    key: ShownKey
    secret: str


class KeysAnswer(msgspec.Struct, frozen=True):
    """Keys, oldest first."""

    keys: list[ShownKey]


class KeysAsked(OperatorQuestion, frozen=True, kw_only=True):
    """The keys of an account, by its name or id, or of all."""

    account: str | None = None


class NewKey(OperatorQuestion, frozen=True, kw_only=True):
    """A key to create: a runtime key names its account, others name none."""

    role: Role = Role.RUNTIME
    account: str | None = None
    name: str = "key"
    # A workflow that binds a runtime key: its requests belong to no other.
    workflow: str = ""


class KeyNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One key, by its id."""

    key: str


class RevokedKey(msgspec.Struct, frozen=True):
    """A key that is revoked for good."""

    id: str
    is_revoked: bool = True


async def _list(rooms: OperatorRooms, asked: KeysAsked) -> KeysAnswer:
    since = datetime.fromtimestamp(rooms.clock.now(), UTC) - _LOOKED_BACK
    owner = await find_account_if_given(rooms.accounts, asked.account)
    keys = await rooms.keys.list(owner)
    used = await rooms.reports.keys_last_used(since)
    return KeysAnswer([_shown(key, used.get(key.id)) for key in keys])


async def _create(rooms: OperatorRooms, asked: NewKey) -> CreatedKey:
    owner = await find_account_if_given(rooms.accounts, asked.account)
    key, secret = await rooms.keys.create(asked.role, owner, asked.name, asked.workflow)
    return CreatedKey(_shown(key), secret)


async def _revoke(rooms: OperatorRooms, asked: KeyNamed) -> RevokedKey:
    await rooms.keys.revoke(asked.key)
    return RevokedKey(asked.key)


def _shown(key: Key, last_used_at: datetime | None = None) -> ShownKey:
    account = key.account
    return ShownKey(
        id=key.id,
        role=key.role,
        account=account.id if account else None,
        account_name=account.name if account else None,
        name=key.name,
        is_revoked=key.is_revoked,
        workflow=key.workflow,
        # A key's id begins with the time at which it was made.
        created_at=datetime.fromtimestamp(timestamp_of(key.id), UTC),
        last_used_at=last_used_at,
    )


LIST_KEYS = Operation(
    name="list_keys",
    summary="List the keys, without their secrets.",
    method="GET",
    path="/keys",
    question=KeysAsked,
    answer=KeysAnswer,
    run=_list,
)
CREATE_KEY = Operation(
    name="create_key",
    summary="Create a key. Its secret is in this answer, and kept nowhere.",
    method="POST",
    path="/keys",
    question=NewKey,
    answer=CreatedKey,
    run=_create,
)
REVOKE_KEY = Operation(
    name="revoke_key",
    summary="Revoke a key for good. Every gateway applies it within 5 s.",
    method="DELETE",
    path="/keys/{key}",
    question=KeyNamed,
    answer=RevokedKey,
    run=_revoke,
)
KEY_OPERATIONS = (LIST_KEYS, CREATE_KEY, REVOKE_KEY)
