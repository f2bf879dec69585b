"""Operations on limits, and on the leases that gateway workers hold of them."""

from typing import Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from penstock.admission import LimitState, is_alive, list_holders, release_holder
from penstock.admission.lost_leases import LeaseHolder
from penstock.console.operation import Nothing, Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.errors import Conflict, NotFound
from penstock.policy.account_names import account_names, find_account, find_account_if_given
from penstock.records.limit import Limit, Measure, Period, Scope


class ShownLimit(msgspec.Struct, frozen=True):
    """A limit. `value` names the key, workflow or session; "*" is each one by itself."""

    id: int
    account: str
    scope: Scope
    value: str
    measure: Measure
    period: Period
    amount: int
    is_hard: bool
    # The contract that owns it: then it holds for each account by itself, and `account` is "".
    contract: str = ""


class ShownLimitState(msgspec.Struct, frozen=True):
    """A limit in the present window. `value` is the one that has used the most of it."""

    limit: ShownLimit
    window_start: int
    value: str
    spent: int
    leased: int
    free: int


class LimitStatesAnswer(msgspec.Struct, frozen=True):
    """Limits, oldest first, and the names of accounts that no other account has."""

    limits: list[ShownLimitState]
    account_names: dict[str, str]


class LimitsAsked(OperatorQuestion, frozen=True, kw_only=True):
    """The limits of an account, by its name or id, or of all."""

    account: str | None = None


class LimitAmount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of what may be used in each period."""

    measure: Measure
    period: Period
    amount: int


class NewLimits(OperatorQuestion, frozen=True, kw_only=True):
    """Limits on an account, or on one key, workflow or session of it. A soft limit only warns."""

    account: str
    scope: Scope = Scope.ACCOUNT
    value: str = ""
    amounts: Annotated[list[LimitAmount], Meta(min_length=1, max_length=16)]
    is_hard: bool = True


class LimitsAnswer(msgspec.Struct, frozen=True):
    """The limits that were set."""

    limits: list[ShownLimit]


class LimitNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One limit, by its id."""

    limit: Annotated[int, Meta(ge=0, le=2**31 - 1)]


class RemovedLimit(msgspec.Struct, frozen=True):
    """A limit that is removed."""

    id: int
    is_removed: bool = True


class LeaseHoldersAnswer(msgspec.Struct, frozen=True):
    """Gateway workers that hold leases, the most recently renewed first."""

    holders: list[LeaseHolder]


class LeaseHolderNamed(OperatorQuestion, frozen=True, kw_only=True):
    """One gateway worker; `force` releases also the leases of one that is not lost."""

    holder: UUID
    force: bool = False


class ReleasedLeases(msgspec.Struct, frozen=True):
    """How many leases of a worker were released."""

    holder: str
    released: int


async def _list(rooms: OperatorRooms, asked: LimitsAsked) -> LimitStatesAnswer:
    owner = await find_account_if_given(rooms.accounts, asked.account)
    states = await rooms.limits.list(owner)
    return LimitStatesAnswer([_state(each) for each in states], await account_names(rooms.accounts))


async def _set(rooms: OperatorRooms, asked: NewLimits) -> LimitsAnswer:
    account = await find_account(rooms.accounts, asked.account)
    made = [
        await rooms.limits.create(
            Limit(
                0,
                account,
                asked.scope,
                asked.value,
                each.measure,
                each.period,
                each.amount,
                asked.is_hard,
            )
        )
        for each in asked.amounts
    ]
    return LimitsAnswer([_limit(each) for each in made])


async def _remove(rooms: OperatorRooms, asked: LimitNamed) -> RemovedLimit:
    await rooms.limits.remove(asked.limit)
    return RemovedLimit(asked.limit)


async def _list_holders(rooms: OperatorRooms, _: Nothing) -> LeaseHoldersAnswer:
    return LeaseHoldersAnswer(list(await list_holders(rooms.store)))


async def _release(rooms: OperatorRooms, asked: LeaseHolderNamed) -> ReleasedLeases:
    holder = str(asked.holder)
    async with rooms.store.transaction() as transaction:
        if not asked.force and await is_alive(transaction, holder):
            raise Conflict(
                f"Holder {holder} is not lost: it renewed its leases and goes on using them,"
                " while others would be given the same. If you are sure, pass --force (`force`)."
            )
        count = await release_holder(transaction, holder)
    if not count:
        raise NotFound(f"There is no holder {holder} with leases.")
    return ReleasedLeases(holder, count)


def _limit(limit: Limit) -> ShownLimit:
    return ShownLimit(
        limit.id,
        limit.account,
        limit.scope,
        limit.value,
        limit.measure,
        limit.period,
        limit.amount,
        limit.is_hard,
        limit.contract,
    )


def _state(state: LimitState) -> ShownLimitState:
    return ShownLimitState(
        _limit(state.limit),
        state.window_start,
        state.value,
        state.spent,
        state.leased,
        state.free,
    )


LIST_LIMITS = Operation(
    name="list_limits",
    summary="List the limits, and how they stand in the present window.",
    method="GET",
    path="/limits",
    question=LimitsAsked,
    answer=LimitStatesAnswer,
    run=_list,
)
SET_LIMITS = Operation(
    name="set_limits",
    summary="Set limits. An existing one on the same gets the new amount.",
    method="POST",
    path="/limits",
    question=NewLimits,
    answer=LimitsAnswer,
    run=_set,
)
REMOVE_LIMIT = Operation(
    name="remove_limit",
    summary="Remove a limit.",
    method="DELETE",
    path="/limits/{limit}",
    question=LimitNamed,
    answer=RemovedLimit,
    run=_remove,
)
LIST_LEASE_HOLDERS = Operation(
    name="list_lease_holders",
    summary="List the gateway workers that hold leases.",
    method="GET",
    path="/lease-holders",
    question=Nothing,
    answer=LeaseHoldersAnswer,
    run=_list_holders,
)
RELEASE_LEASES = Operation(
    name="release_leases",
    summary="Free what a lost worker held. What it used and nobody has booked is not counted.",
    method="DELETE",
    path="/lease-holders/{holder}",
    question=LeaseHolderNamed,
    answer=ReleasedLeases,
    run=_release,
)
LIMIT_OPERATIONS = (LIST_LIMITS, SET_LIMITS, REMOVE_LIMIT, LIST_LEASE_HOLDERS, RELEASE_LEASES)
