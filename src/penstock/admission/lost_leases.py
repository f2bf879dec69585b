"""Releases the leases of lost workers: their unused part is free once the journal is drained.

An expired lease stays charged, because its worker may have used all of it. A drained journal shows
what was used; a host that never returns is given up after a day, or by command. Live workers clean
up their own leases: see lease_table.py.
"""

import asyncio
import logging
from typing import Final

import msgspec

from penstock.admission.settings import AdmissionSettings
from penstock.errors import StoreUnavailable
from penstock.store import Store, Transaction

_LOOK_SECONDS: Final = 60.0

logger = logging.getLogger(__name__)

# How many leases are dropped in one transaction.
_ROWS_MAX: Final = 5000
_LOST_MAX: Final = 1000

_DROP_ENDED = """
    delete from leases where ctid = any (array(
        select lease.ctid from leases lease
        left join limits l on l.id = lease.limit_id
        left join lease_holders h on h.holder = lease.holder
        where lease.window_start < now() - interval '1 day'
          and (h.holder is null or h.expires_at < now())
          and (l.id is null or lease.window_start
               < date_trunc(l.period, now() - interval '1 day', 'UTC'))
        limit %s
    ))
"""
_LOST = """
    select holder::text from lease_holders
    where expires_at < now() - make_interval(secs => %s) order by expires_at limit %s
"""
_TAKE_LOST = """
    delete from lease_holders
    where holder = %s::uuid and expires_at < now() - make_interval(secs => %s)
"""
_LIST = """
    select h.holder::text, count(*), extract(epoch from h.expires_at)::float8, h.expires_at < now()
    from lease_holders h join leases on leases.holder = h.holder
    group by h.holder order by h.expires_at desc, h.holder limit %s
"""


class LeaseHolder(msgspec.Struct, frozen=True):
    """A gateway worker that holds leases."""

    id: str
    leases: int
    expires_at: float
    is_expired: bool


class LostLeases:
    """The leading control process' loop that releases leases of workers that never came back."""

    def __init__(self, store: Store, settings: AdmissionSettings) -> None:
        self._store = store
        self._settings = settings

    async def run(self) -> None:
        while True:
            try:
                await release_lost(self._store, self._settings.lost_host_hours)
            except StoreUnavailable:
                logger.warning("lost leases not given up", extra={"action": "lost_leases_wait"})
            except Exception:
                # The top of the loop: the control process' other loops must go on.
                logger.exception("lost leases not given up", extra={"action": "lost_leases_fail"})
            await asyncio.sleep(_LOOK_SECONDS)


async def release_holder(transaction: Transaction, holder: str) -> int:
    """Drop a worker's leases: its journal is drained, so what it spent is booked."""
    # First, so that the worker writes no lease meanwhile.
    await transaction.execute("delete from lease_holders where holder = %s::uuid", (holder,))
    return await transaction.execute("delete from leases where holder = %s::uuid", (holder,))


async def is_alive(transaction: Transaction, holder: str) -> bool:
    """Return whether a worker's leases are unexpired; locks its row until the transaction ends."""
    row = await transaction.fetch_one(
        "select expires_at >= now() from lease_holders where holder = %s::uuid for update",
        (holder,),
    )
    return row is not None and bool(row[0])


async def release_lost(store: Store, lost_host_hours: float) -> int:
    """Release leases that expired long ago, and delete those of windows that ended long ago."""
    while await _drop_ended(store) >= _ROWS_MAX:
        pass
    seconds = lost_host_hours * 3600
    async with store.transaction() as transaction:
        lost = [row[0] for row in await transaction.fetch(_LOST, (seconds, _LOST_MAX))]
    count = 0
    for holder in lost:
        async with store.transaction() as transaction:
            if not await transaction.execute(_TAKE_LOST, (holder, seconds)):
                # The worker has come back meanwhile.
                continue
            released = await release_holder(transaction, holder)
        if released:
            count += released
            logger.warning(
                "leases of a lost worker given up",
                extra={"action": "leases_given_up", "holder": holder},
            )
    return count


async def list_holders(store: Store, *, limit: int = 10_000) -> tuple[LeaseHolder, ...]:
    """Return the holders of leases, the most recently renewed first."""
    async with store.transaction() as transaction:
        rows = await transaction.fetch(_LIST, (limit,))
    return tuple(LeaseHolder(*row) for row in rows)


async def _drop_ended(store: Store) -> int:
    async with store.transaction() as transaction:
        return await transaction.execute(_DROP_ENDED, (_ROWS_MAX,))
