"""Counts what containers cost in the limits of their accounts on money."""

from collections.abc import Sequence
from typing import Final

from penstock.records.account import AccountId
from penstock.records.limit import CONTAINER_HOLDER
from penstock.store import Transaction

_ADD: Final = """
    insert into limit_spend as s (limit_id, value, window_start, holder, amount)
    select l.id, '', date_trunc(l.period, to_timestamp(c.at), 'UTC'), %s::uuid, sum(c.nanousd)
    from unnest(%s::text[], %s::bigint[], %s::float8[]) as c (account, nanousd, at)
    join limits l on l.account = c.account
    where l.scope = 'account' and l.measure = 'nanousd' and not l.is_removed and c.nanousd > 0
    group by 1, 2, 3
    order by 1, 2, 3
    on conflict (limit_id, value, window_start, holder) do update set
        amount = s.amount + excluded.amount
"""


async def count_container_spend(
    transaction: Transaction, charges: Sequence[tuple[AccountId, int, float]]
) -> None:
    """Add charges, each of an account in nano-dollars at a time, to the accounts' limits.

    The same transaction must write them down as charged, so that none is counted twice.
    """
    if charges:
        columns = [list(column) for column in zip(*charges, strict=True)]
        await transaction.execute(_ADD, (CONTAINER_HOLDER, *columns))
