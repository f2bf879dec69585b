"""Marks replicas of lost keepers as gone, and deletes the rows of replicas and hosts long gone.

The leading control process runs it. After every failure to reach Postgres it waits one full
interval before it marks any replica, so that each live keeper can write its heartbeat first.
"""

import asyncio
import logging

from penstock.clock import Clock
from penstock.errors import StoreUnavailable
from penstock.fleet.roster import give_up
from penstock.fleet.settings import FleetSettings
from penstock.store.pool import Store

_log = logging.getLogger(__name__)

_SILENT = """
    select id from replicas
    where state <> 'gone' and heartbeat_at < now() - make_interval(secs => %s)
        -- Pods have no supervisor that ends them when their keeper is away: they serve on.
        and keeper not in (select keeper from hosts where pool <> '')
    limit 1000
"""
_DELETE = """
    delete from replicas
    where state = 'gone' and changed_at < now() - make_interval(secs => %s)
"""
# A cordoned host must be cordoned when it comes back.
_DELETE_HOSTS = """
    delete from hosts
    where not is_cordoned and heartbeat_at < now() - make_interval(secs => %s)
"""


class Reaper:
    """Checks the roster every `reap_seconds`."""

    def __init__(self, store: Store, clock: Clock, settings: FleetSettings) -> None:
        self._store = store
        self._clock = clock
        self._interval = settings.reap_seconds
        self._silent_seconds = settings.orphan_seconds + settings.reap_margin_seconds
        self._keep_seconds = settings.gone_keep_hours * 3600
        self._connected_at: float | None = None

    async def run(self) -> None:
        """Run until cancelled; the caller must cancel it when it loses the leadership."""
        while True:
            await self.step()
            await asyncio.sleep(self._interval)

    async def step(self) -> int:
        """Check once; return how many replicas were marked as gone."""
        try:
            async with self._store.transaction() as tx:
                if not self._may_judge():
                    # A query is needed: if it fails, the waiting interval begins anew.
                    await tx.fetch_one("select 1")
                    return 0
                rows = await tx.fetch(_SILENT, (self._silent_seconds,))
                ids = [row[0] for row in rows]
                count = await give_up(tx, ids, "its keeper has not been heard of")
                await tx.execute(_DELETE, (self._keep_seconds,))
                await tx.execute(_DELETE_HOSTS, (self._silent_seconds + self._keep_seconds,))
        except StoreUnavailable:
            self._connected_at = None
            return 0
        if count:
            _log.warning("replicas given up", extra={"action": "replicas_reaped", "replicas": ids})
        return count

    def _may_judge(self) -> bool:
        now = self._clock.monotonic()
        if self._connected_at is None:
            self._connected_at = now
        return now - self._connected_at >= self._interval
