"""One worker's rows of the table `leases`, and what else Postgres says of its pots.

Whoever grants holds the pot's lock from reading until commit, so grants are given one after the
other. Giving back needs none: it can only make more free than a reader saw.
"""

import hashlib
from collections.abc import Sequence

from penstock.admission.pot import Pot, PotKey, Reading
from penstock.store import Transaction
from penstock.store.pool import Row

_LOCK = "select pg_advisory_xact_lock(lock) from unnest(%s::bigint[]) as wanted (lock)"
_READ = """
    select pot.place, coalesce(l.amount, 0),
           case when l.base_window = to_timestamp(pot.starts) then l.base_amount else 0 end,
           coalesce(sum(greatest(h.granted, h.spent)), 0), coalesce(sum(h.spent), 0),
           coalesce(sum(h.granted) filter (where h.holder = %s::uuid), 0),
           coalesce(sum(h.spent) filter (where h.holder = %s::uuid), 0),
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
    insert into leases (limit_id, value, window_start, holder, granted, expires_at)
    select limit_id, value, to_timestamp(starts), %s::uuid, granted,
           now() + make_interval(secs => %s)
    from unnest(%s::bigint[], %s::text[], %s::float8[], %s::bigint[])
        as pot (limit_id, value, starts, granted)
    on conflict (limit_id, value, window_start, holder) do update set
        granted = excluded.granted, expires_at = excluded.expires_at
"""
_DELETE = """
    delete from leases using unnest(%s::bigint[], %s::text[], %s::float8[])
        as pot (limit_id, value, starts)
    where leases.limit_id = pot.limit_id and leases.value = pot.value
      and leases.window_start = to_timestamp(pot.starts) and leases.holder = %s::uuid
"""
_RENEW = """
    update leases set expires_at = now() + make_interval(secs => %s) where holder = %s::uuid
    returning limit_id, value, extract(epoch from window_start)::bigint
"""


class LeaseTable:
    """Reads pots and writes this holder's leases, inside a transaction of the caller's."""

    def __init__(self, holder: str, lease_seconds: float) -> None:
        self._holder = holder
        self._lease_seconds = lease_seconds

    async def lock(self, transaction: Transaction, pots: Sequence[Pot]) -> None:
        """Wait until nobody else grants from these pots. Always in the same order."""
        # A statement of its own: what comes after it sees what others committed while it waited.
        await transaction.execute(_LOCK, (sorted(_lock_of(pot.key) for pot in pots),))

    async def read(self, transaction: Transaction, pots: Sequence[Pot]) -> dict[PotKey, Reading]:
        rows = await transaction.fetch(_READ, (self._holder, self._holder, *_columns(pots)))
        return {pots[row[0] - 1].key: _reading(row) for row in rows}

    async def write(self, transaction: Transaction, grants: Sequence[tuple[Pot, int]]) -> None:
        columns = _columns([pot for pot, _ in grants])
        granted = [amount for _, amount in grants]
        await transaction.execute(_WRITE, (self._holder, self._lease_seconds, *columns, granted))

    async def delete(self, transaction: Transaction, pots: Sequence[Pot]) -> None:
        await transaction.execute(_DELETE, (*_columns(pots), self._holder))

    async def renew(self, transaction: Transaction) -> set[PotKey]:
        """Say that this worker lives. Returns the leases it still has."""
        rows = await transaction.fetch(_RENEW, (self._lease_seconds, self._holder))
        return {(row[0], row[1], row[2]) for row in rows}


def _reading(row: Row) -> Reading:
    amount, base, charged, spent, own_granted, own_spent = map(int, row[1:7])
    return Reading(amount, base, charged, spent, own_granted, own_spent, row[7])


def _columns(pots: Sequence[Pot]) -> tuple[list[int], list[str], list[float]]:
    keys = [pot.key for pot in pots]
    return [key[0] for key in keys], [key[1] for key in keys], [float(key[2]) for key in keys]


def _lock_of(key: PotKey) -> int:
    digest = hashlib.blake2b(repr(key).encode(), digest_size=8, person=b"penstock pot").digest()
    return int.from_bytes(digest, signed=True)
