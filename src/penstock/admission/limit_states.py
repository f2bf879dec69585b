"""Reads each limit's state in the current window: what is booked, leased and free."""

from typing import Final

import msgspec

from penstock.admission.limit_rows import limit_from
from penstock.records.limit import Limit
from penstock.store import Transaction

_FIELDS: Final = 9
_LIST: Final = """
    select l.id, l.account, l.scope, l.value, l.measure, l.period, l.amount, l.is_hard,
           l.contract, extract(epoch from w.starts)::bigint, coalesce(p.value, ''),
           coalesce(p.spent, 0) + w.base, coalesce(p.charged - p.spent, 0)
    from limits l
    cross join lateral (
        select starts, case when l.base_window = starts then l.base_amount else 0 end as base
        from date_trunc(l.period, now(), 'UTC') as starts
    ) w
    left join lateral (
        -- Of a limit on each value by itself, the value that has come furthest.
        select value, sum(spent) as spent, sum(greatest(granted, spent)) as charged
        from (
            select value, holder, sum(granted) as granted, sum(spent) as spent
            from (
                select value, holder, granted, 0 as spent from leases
                where limit_id = l.id and window_start = w.starts
                union all
                select value, holder, 0, amount from limit_spend
                where limit_id = l.id and window_start = w.starts
            ) each_row group by value, holder
        ) each_holder group by value order by charged desc, value limit 1
    ) p on true
    where not l.is_removed and (%s::text is null or l.account = %s)
    order by l.id limit %s
"""


class LimitState(msgspec.Struct, frozen=True):
    """A limit in the current window. `value` is the one that has used the most of it.

    `spent` is what is booked; `leased` is what is leased or held for jobs beyond that.
    """

    limit: Limit
    window_start: int
    value: str
    spent: int
    leased: int

    @property
    def free(self) -> int:
        return self.limit.amount - self.spent - self.leased


async def read_states(
    transaction: Transaction, account: str | None, limit: int
) -> tuple[LimitState, ...]:
    """Return the states of one account's limits, or of all limits, the oldest first."""
    rows = await transaction.fetch(_LIST, (account, account, limit))
    return tuple(
        LimitState(limit_from(row[:_FIELDS]), row[9], row[10], int(row[11]), int(row[12]))
        for row in rows
    )
