"""Reads and writes one worker's rows of the table `leases`, and reads its balances' figures.

A worker that grants holds the balance's lock from reading until commit, so grants are serialized.
Returning needs no lock: it can only make more free than a reader saw. Every statement's number of
rows is bounded.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from penstock.admission.window_balance import BalanceKey, Reading, WindowBalance
from penstock.errors import Superseded
from penstock.records.limit import FLEX_HOLDER
from penstock.store import Transaction
from penstock.store.pool import Row

_LOCK = "select pg_advisory_xact_lock(lock) from unnest(%s::bigint[]) as wanted (lock)"
_READ = """
    select pot.place, coalesce(l.amount, 0),
           case when l.base_window = to_timestamp(pot.starts) then l.base_amount else 0 end,
           coalesce(sum(greatest(h.granted, h.spent)), 0), coalesce(sum(h.spent), 0),
           coalesce(sum(h.granted) filter (where h.holder = %s::uuid), 0),
           coalesce(sum(h.spent) filter (where h.holder = %s::uuid), 0),
           coalesce(sum(greatest(h.granted - h.spent, 0)) filter (where h.holder = %s::uuid), 0),
           coalesce(l.is_hard and not l.is_removed, false)
    from unnest(%s::bigint[], %s::text[], %s::float8[]) with ordinality
        as pot (limit_id, value, starts, place)
    left join limits l on l.id = pot.limit_id
    left join lateral (
        select holder, sum(granted) as granted, sum(spent) as spent
        from (
            select holder, granted, 0 as spent from leases
            where limit_id = pot.limit_id and value = pot.value
              and window_start = to_timestamp(pot.starts)
            union all
            select holder, 0, amount from limit_spend
            where limit_id = pot.limit_id and value = pot.value
              and window_start = to_timestamp(pot.starts)
        ) each_row group by holder
    ) h on true
    group by pot.place, pot.starts, l.id
"""
_WRITE = """
    with me as (
        -- Whoever takes our leases away deletes this row first, and waits for us.
        select holder from lease_holders where holder = %s::uuid for key share
    )
    insert into leases (limit_id, value, window_start, holder, granted)
    select limit_id, value, to_timestamp(starts), holder, granted
    from me cross join unnest(%s::bigint[], %s::text[], %s::float8[], %s::bigint[])
        as pot (limit_id, value, starts, granted)
    on conflict (limit_id, value, window_start, holder) do update set granted = excluded.granted
"""
_RENEW = """
    update lease_holders set expires_at = now() + make_interval(secs => %s) where holder = %s::uuid
"""
_REGISTER = """
    insert into lease_holders (expires_at, holder)
    values (now() + make_interval(secs => %s), %s::uuid) on conflict (holder) do nothing
"""
_SWEEP = """
    with mine as (
        select ctid, limit_id, value, window_start, holder from leases
        where holder = %s::uuid and (limit_id, value, window_start) > (%s, %s, to_timestamp(%s))
        order by limit_id, value, window_start limit %s
    ), gone as (
        delete from leases using mine
            left join limits l on l.id = mine.limit_id
            left join limit_spend s on s.limit_id = mine.limit_id and s.value = mine.value
                and s.window_start = mine.window_start and s.holder = mine.holder
        where leases.ctid = mine.ctid and (
            -- The larger of the two counts: without the lease it is the same.
            leases.granted <= coalesce(s.amount, 0)
            or l.id is null or l.is_removed
            or leases.window_start < date_trunc(l.period, to_timestamp(%s), 'UTC')
        )
    )
    select count(*) over (), limit_id, value, extract(epoch from window_start)::bigint
    from mine order by limit_id desc, value desc, window_start desc limit 1
"""
# Sorts before all keys: limits are numbered from 1.
FIRST: Final[BalanceKey] = (0, "", 0)


class LeaseTable:
    """Reads balances and writes this holder's leases, inside a transaction of the caller's."""

    def __init__(self, holder: str, lease_seconds: float) -> None:
        self._holder = holder
        self._lease_seconds = lease_seconds

    async def lock(self, transaction: Transaction, balances: Sequence[WindowBalance]) -> None:
        """Lock these balances against other grants. Always in the same order."""
        # A separate statement: the next one sees what others committed during the wait.
        await transaction.execute(_LOCK, (sorted(_lock_of(balance.key) for balance in balances),))

    async def read(
        self, transaction: Transaction, balances: Sequence[WindowBalance]
    ) -> dict[BalanceKey, Reading]:
        rows = await transaction.fetch(
            _READ, (self._holder, self._holder, FLEX_HOLDER, *_columns(balances))
        )
        return {balances[row[0] - 1].key: _reading(row) for row in rows}

    async def write(
        self, transaction: Transaction, grants: Sequence[tuple[WindowBalance, int]]
    ) -> None:
        """Write grants; raise Superseded when our leases were taken away, see `renew`."""
        columns = _columns([balance for balance, _ in grants])
        granted = [amount for _, amount in grants]
        if not await transaction.execute(_WRITE, (self._holder, *columns, granted)):
            raise Superseded("This worker's leases were taken away.")

    async def renew(self, transaction: Transaction) -> bool:
        """Extend this worker's registration. Returns False when it had none, and registers it."""
        facts = (self._lease_seconds, self._holder)
        if await transaction.execute(_RENEW, facts):
            return True
        await transaction.execute("delete from leases where holder = %s::uuid", (self._holder,))
        await transaction.execute(_REGISTER, facts)
        return False

    async def sweep(
        self, transaction: Transaction, after: BalanceKey, at: float, most: int
    ) -> BalanceKey | None:
        """Check some of our leases, and delete those that add nothing to what is charged.

        That is: all of it is spent and booked, or the window was over `at` this time, or the limit
        is gone. Returns where the next call continues, None at the end.
        """
        row = await transaction.fetch_one(_SWEEP, (self._holder, *after, most, at))
        return (row[1], row[2], row[3]) if row and row[0] >= most else None


def _reading(row: Row) -> Reading:
    amount, base, charged, spent, own_granted, own_spent, jobs_held = map(int, row[1:8])
    return Reading(amount, base, charged, spent, own_granted, own_spent, jobs_held, row[8])


def _columns(balances: Sequence[WindowBalance]) -> tuple[list[int], list[str], list[float]]:
    keys = [balance.key for balance in balances]
    return [key[0] for key in keys], [key[1] for key in keys], [float(key[2]) for key in keys]


def _lock_of(key: BalanceKey) -> int:
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8, person=b"penstock pot").digest()
    return int.from_bytes(digest, signed=True)
