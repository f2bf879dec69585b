"""Tells control, through Postgres, how many requests wait at a gateway for a replica."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from penstock.clock import Clock
from penstock.errors import StoreUnavailable
from penstock.records.model import ModelId
from penstock.store.pool import Store

# How soon control is told that somebody waits, and how often while anybody does.
_LOOK_SECONDS: Final = 0.2
_REPORT_SECONDS: Final = 1.0
_WRITE: Final = """
    insert into waiting_requests (worker, pool, waiting)
    select %s, pool, waiting from unnest(%s::text[], %s::int[]) as w (pool, waiting)
    on conflict (worker, pool) do update set waiting = excluded.waiting, at = now()
"""
# With the rows of workers that died.
_CLEAR: Final = """
    delete from waiting_requests
    where (worker = %s and not pool = any(%s)) or at < now() - interval '1 hour'
"""

_log = logging.getLogger(__name__)


class AwaitedRoster(Protocol):
    """A mirror that is read more often while requests wait for a replica."""

    is_awaited: bool


class WaitingReports:
    """One gateway worker's reports. While nobody waits it costs nothing but a look."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        worker: str,
        waiting: Callable[[], Mapping[ModelId, int]],
        roster: AwaitedRoster,
    ) -> None:
        self._store = store
        self._clock = clock
        self._worker = worker
        self._waiting = waiting
        self._roster = roster
        self._told: set[ModelId] = set()
        self._told_at = 0.0

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except StoreUnavailable:
                _log.warning("cannot tell who waits", extra={"action": "waiting_untold"})
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Write how many wait, if anybody does or did."""
        waiting = dict(self._waiting())
        self._roster.is_awaited = bool(waiting)
        now = self._clock.monotonic()
        is_news = waiting.keys() != self._told
        if not is_news and (not waiting or now - self._told_at < _REPORT_SECONDS):
            return
        async with self._store.transaction() as tx:
            if waiting:
                await tx.execute(_WRITE, (self._worker, list(waiting), list(waiting.values())))
            if is_news:
                await tx.execute(_CLEAR, (self._worker, list(waiting)))
        self._told, self._told_at = set(waiting), now
