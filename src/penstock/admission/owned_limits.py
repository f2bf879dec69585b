"""Writes the limits that contracts own, in the transaction that applies a set of contracts.

A limit that is there again after it was gone goes on with its counts, so that going back to an old
set and forward again gives nobody the same money twice.
"""

from collections.abc import Sequence
from typing import Final

from penstock.admission.limit_book import next_revision
from penstock.records.limit import Limit
from penstock.store import Transaction

# Of the rows on one thing, removed ones too, the one that is in force or was last.
_SET: Final = """
    with wanted as (
        select * from unnest(
            %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::bigint[], %s::bool[]
        ) as w (contract, scope, value, measure, period, amount, is_hard)
    ), known as (
        select distinct on (w.contract, w.scope, w.measure, w.period) l.id, w.amount, w.is_hard
        from wanted w join limits l using (contract, scope, value, measure, period)
        where l.account is null
        order by w.contract, w.scope, w.measure, w.period, l.is_removed, l.id desc
    ), changed as (
        update limits l set amount = k.amount, is_hard = k.is_hard, is_removed = false,
            revision = %s
        from known k where l.id = k.id
            and (l.is_removed or (l.amount, l.is_hard) <> (k.amount, k.is_hard))
    ), gone as (
        update limits l set is_removed = true, revision = %s
        where l.account is null and not l.is_removed and l.id not in (select id from known)
    )
    insert into limits (contract, scope, value, measure, period, amount, is_hard, revision,
                        base_window, base_amount)
    select w.contract, w.scope, w.value, w.measure, w.period, w.amount, w.is_hard, %s,
           date_trunc(w.period, now(), 'UTC'), 0
    from wanted w where not exists (
        select from limits l where l.account is null and l.contract = w.contract
            and l.scope = w.scope and l.measure = w.measure and l.period = w.period
    )
"""


class OwnedLimits:
    """Replaces all limits that contracts own; ids and accounts of the given ones are ignored."""

    async def replace(self, transaction: Transaction, limits: Sequence[Limit]) -> None:
        revision = await next_revision(transaction)
        rows = [
            (
                each.contract,
                each.scope.value,
                each.value,
                each.measure.value,
                each.period.value,
                each.amount,
                each.is_hard,
            )
            for each in limits
        ]
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(7)]
        await transaction.execute(_SET, (*columns, revision, revision, revision))
