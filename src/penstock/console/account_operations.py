"""Operations on accounts."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.console.operation import Nothing, Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.errors import InvalidRequest
from penstock.policy.account_names import find_account
from penstock.policy.accounts import FLEX_WEIGHT_MAX
from penstock.records.account import Account, Affinity, OnOutage, Storage
from penstock.turns.forgetting import forget_account


class AccountsAnswer(msgspec.Struct, frozen=True):
    """Accounts, oldest first."""

    accounts: list[Account]


class NewAccount(OperatorQuestion, frozen=True, kw_only=True):
    """An account to create; its id is 32 characters of 0-9 and a-f, made up if not given."""

    name: str
    id: str | None = None
    on_outage: OnOutage = OnOutage.CONTINUE


class AccountNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One account, by its name or id."""

    account: str


class AccountChange(AccountNamed, frozen=True, kw_only=True):
    """The fields of an account to change."""

    is_blocked: bool | None = None
    on_outage: OnOutage | None = None
    affinity: Affinity | None = None
    flex_weight: Annotated[int, Meta(ge=1, le=FLEX_WEIGHT_MAX)] | None = None
    has_usage_cost: bool | None = None
    storage: Storage | None = None


async def _list(rooms: OperatorRooms, _: Nothing) -> AccountsAnswer:
    return AccountsAnswer(list(await rooms.accounts.list()))


async def _create(rooms: OperatorRooms, asked: NewAccount) -> Account:
    return await rooms.accounts.create(asked.name, asked.id, asked.on_outage)


async def _change(rooms: OperatorRooms, asked: AccountChange) -> Account:
    accounts, changed = rooms.accounts, None
    id = await find_account(accounts, asked.account)
    if asked.is_blocked is not None:
        changed = await accounts.set_blocked(id, asked.is_blocked)
    if asked.on_outage is not None:
        changed = await accounts.set_on_outage(id, asked.on_outage)
    if asked.affinity is not None:
        changed = await accounts.set_affinity(id, asked.affinity)
    if asked.flex_weight is not None:
        changed = await accounts.set_flex_weight(id, asked.flex_weight)
    if asked.has_usage_cost is not None:
        changed = await accounts.set_usage_cost(id, asked.has_usage_cost)
    if asked.storage is not None:
        changed = await accounts.set_storage(id, asked.storage)
    if changed is None:
        raise InvalidRequest("Say what to change.")
    return changed


async def _forget(rooms: OperatorRooms, asked: AccountNamed) -> Account:
    id = await find_account(rooms.accounts, asked.account)
    async with rooms.kept() as kept:
        await forget_account(kept, id)
    found = await rooms.accounts.find(id)
    assert found is not None, "it was found before"
    return found


LIST_ACCOUNTS = Operation(
    name="list_accounts",
    summary="List the accounts.",
    method="GET",
    path="/accounts",
    question=Nothing,
    answer=AccountsAnswer,
    run=_list,
)
CREATE_ACCOUNT = Operation(
    name="create_account",
    summary="Create an account.",
    method="POST",
    path="/accounts",
    question=NewAccount,
    answer=Account,
    run=_create,
)
CHANGE_ACCOUNT = Operation(
    name="change_account",
    summary="Change or block an account. Every gateway applies it within 5 s.",
    method="PATCH",
    path="/accounts/{account}",
    question=AccountChange,
    answer=Account,
    run=_change,
)
FORGET_ACCOUNT = Operation(
    name="forget_account",
    summary="Block an account, and delete all that it sent and got. Nothing brings it back.",
    method="POST",
    path="/accounts/{account}/forget",
    question=AccountNamed,
    answer=Account,
    run=_forget,
)
ACCOUNT_OPERATIONS = (LIST_ACCOUNTS, CREATE_ACCOUNT, CHANGE_ACCOUNT, FORGET_ACCOUNT)
