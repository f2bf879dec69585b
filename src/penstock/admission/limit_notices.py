"""Tells that a limit of a day or a month is used up: once for each window, value and amount.

A worker notes what it sees; its loop writes that down in one transaction with the events that are
published, so that several workers tell it once. Limits of a minute are told to their caller alone.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, NamedTuple

from penstock.admission.division import Shortage
from penstock.admission.settings import AdmissionSettings
from penstock.admission.window_balance import BalanceKey, WindowBalance
from penstock.records.account import AccountId
from penstock.records.limit import Limit, Period
from penstock.store import Store, Transaction

REACHED: Final = "limit.reached"
PASSED: Final = "limit.passed"

# Rows of windows that are over stay until `metering.retention` drops them.
_TELL: Final = """
    insert into limit_notices (window_start, limit_id, value, amount)
    select to_timestamp(starts), limit_id, value, amount
    from unnest(%s::bigint[], %s::text[], %s::float8[], %s::bigint[])
        as notice (limit_id, value, starts, amount)
    order by 1, 2, 3, 4
    on conflict do nothing
    returning limit_id, value, extract(epoch from window_start)::bigint, amount
"""

# A balance, and the amount of its limit: one that was raised may be reached again.
_Key = tuple[int, str, int, int]


class LimitNotice(NamedTuple):
    """What an account is told of a limit."""

    account: AccountId
    type: str
    data: dict[str, str | int | None]


# Publishes notices if, and only if, the transaction commits.
Publish = Callable[[Transaction, Sequence[LimitNotice]], Awaitable[None]]


class LimitNotices:
    """One worker's notices; what it has told lately it does not write again."""

    def __init__(self, store: Store, settings: AdmissionSettings, publish: Publish) -> None:
        self._store = store
        self._publish = publish
        self._batch_max = settings.pots_batch_max
        self._told_max = settings.pots_max
        self._waiting: dict[_Key, LimitNotice] = {}
        self._told: set[_Key] = set()

    def note_refused(self, shortage: Shortage) -> None:
        """Note a hard limit that refused a request because it is used up.

        Not one whose rest others hold and may give back, nor a request too large for any window.
        """
        if not shortage.is_held and shortage.needed <= shortage.amount:
            self._note(shortage.balance, shortage.amount, REACHED)

    def note_passed(self, balances: Iterable[WindowBalance]) -> None:
        """Note soft limits that were exceeded."""
        for balance in balances:
            self._note(balance, balance.limit.amount, PASSED)

    async def write(self) -> bool:
        """Write what waits, and publish what no other worker has told."""
        notices = self._waiting
        if not notices:
            return True
        columns = [list(column) for column in zip(*notices, strict=True)]
        async with self._store.transaction() as transaction:
            new = await transaction.fetch(_TELL, columns)
            await self._publish(transaction, [notices[_key(row)] for row in new])
        if len(self._told) > self._told_max:
            # What is forgotten is written, and found told, once more.
            self._told.clear()
        self._told.update(notices)
        self._waiting = {}
        return True

    def _note(self, balance: WindowBalance, amount: int, type: str) -> None:
        key = (*balance.key, amount)
        is_due = balance.limit.period is not Period.MINUTE and key not in self._told
        # A notice without room comes back with the next refusal.
        if is_due and len(self._waiting) < self._batch_max:
            self._waiting[key] = notice_of(balance, amount, type)


def _key(row: Sequence[object]) -> _Key:
    limit, value, start, amount = row
    return limit, value, start, amount  # type: ignore[return-value]


def notice_of(balance: WindowBalance, amount: int, type: str) -> LimitNotice:
    """Return what to tell of a balance; `amount` is what its limit allows now."""
    limit = balance.limit
    account, value = _counted_for(limit, balance.key)
    return LimitNotice(
        account,
        type,
        {
            "limit": limit.id,
            "scope": limit.scope.value,
            "value": value,
            "contract": limit.contract or None,
            "measure": limit.measure.value,
            "period": limit.period.value,
            "amount": amount,
            "resets_at": balance.window.end,
        },
    )


def _counted_for(limit: Limit, key: BalanceKey) -> tuple[AccountId, str]:
    """Return whose use a balance counts, and of which key, workflow or session of it."""
    _, value, _ = key
    if not limit.contract:
        return limit.account, value
    account, _, named = value.partition("/")
    return AccountId(account), named
