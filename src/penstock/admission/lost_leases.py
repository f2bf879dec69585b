"""Leases whose worker is gone: what it did not use is free again once its journal is drained.

An expired lease stays charged, for its worker may have used all of it. A journal that is drained
says what was; a host that never returns is given up after a day, or by command.
"""

import asyncio
import logging
from typing import Final

import msgspec

from penstock.admission.settings import Settings
from penstock.errors import StoreUnavailable
from penstock.store import Store, Transaction

_LOOK_SECONDS: Final = 60.0

logger = logging.getLogger(__name__)

_DROP_ENDED = """
    delete from leases using limits l
    where l.id = leases.limit_id and leases.expires_at < now()
      and leases.window_start + ('1 ' || l.period)::interval < now() - interval '1 day'
"""
_LIST = """
    select holder::text, count(*), extract(epoch from max(expires_at))::float8,
           max(expires_at) < now()
    from leases group by holder order by max(expires_at) desc, holder limit %s
"""


class LeaseHolder(msgspec.Struct, frozen=True):
    """A gateway worker, as its leases show it."""

    id: str
    leases: int
    expires_at: float
    is_expired: bool


class LostLeases:
    """A loop in the leading control process: leases whose worker never came back are given up."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings

    async def run(self) -> None:
        while True:
            try:
                await release_lost(self._store, self._settings.lost_host_hours)
            except StoreUnavailable:
                logger.warning("lost leases not given up", extra={"action": "lost_leases_wait"})
            await asyncio.sleep(_LOOK_SECONDS)


async def release_holder(transaction: Transaction, holder: str) -> int:
    """Drop a worker's leases: its journal is drained, so what it spent is booked."""
    return await transaction.execute("delete from leases where holder = %s::uuid", (holder,))


async def release_lost(store: Store, lost_host_hours: float) -> int:
    """Give up leases that expired long ago, and drop those of windows that ended long ago."""
    async with store.transaction() as transaction:
        await transaction.execute(_DROP_ENDED)
        rows = await transaction.fetch(
            "delete from leases where expires_at < now() - make_interval(secs => %s)"
            " returning holder::text",
            (lost_host_hours * 3600,),
        )
    for holder in sorted({row[0] for row in rows}):
        logger.warning(
            "leases of a lost worker given up",
            extra={"action": "leases_given_up", "holder": holder},
        )
    return len(rows)


async def list_holders(store: Store, *, limit: int = 10_000) -> tuple[LeaseHolder, ...]:
    """Who holds leases; those that were renewed last come first."""
    async with store.transaction() as transaction:
        rows = await transaction.fetch(_LIST, (limit,))
    return tuple(LeaseHolder(*row) for row in rows)
