"""Tells control, through Postgres, how many requests wait at a gateway for a replica."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from penstock.clock import Clock
from penstock.errors import StoreUnavailable
from penstock.records.model import ModelId
from penstock.store.pool import Store

# How soon control is told that somebody waits, and how often while anybody does.
_LOOK_SECONDS: Final = 0.2
_REPORT_SECONDS: Final = 1.0
# For how long a request that would not wait counts as one that does.
_UNMET_SECONDS: Final = 3.0
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


class WaitingLines(Protocol):
    """The port that admission's gate implements."""

    def waiting(self) -> Mapping[ModelId, int]: ...

    def take_unmet(self) -> set[ModelId]: ...

    def is_waking(self, model: ModelId) -> bool: ...


class AwaitedRoster(Protocol):
    """A mirror that is read more often while requests wait for a model at zero."""

    is_awaited: bool


class WaitingReports:
    """One gateway worker's reports. While nobody waits it costs nothing but a look."""

    def __init__(
        self, store: Store, clock: Clock, worker: str, lines: WaitingLines, roster: AwaitedRoster
    ) -> None:
        self._store = store
        self._clock = clock
        self._worker = worker
        self._lines = lines
        self._roster = roster
        self._unmet: dict[ModelId, float] = {}
        self._told: set[ModelId] = set()
        self._told_at = 0.0
        self.failures = 0

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except StoreUnavailable:
                _log.warning("cannot tell who waits", extra={"action": "waiting_untold"})
            except Exception:  # noqa: BLE001 - the loop's top: the gateway must keep serving
                self.failures += 1
                _log.exception("waiting not told", extra={"action": "waiting_loop_failed"})
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Write how many wait, if anybody does or did."""
        now = self._clock.monotonic()
        waiting = self._counts(now)
        self._roster.is_awaited = any(self._lines.is_waking(pool) for pool in waiting)
        is_due = now - self._told_at >= _REPORT_SECONDS
        # Who comes is told at once, who left with the next report.
        is_news = bool(waiting.keys() - self._told)
        if not is_news and not (is_due and (waiting or self._told)):
            return
        async with self._store.transaction() as tx:
            if waiting:
                await tx.execute(_WRITE, (self._worker, list(waiting), list(waiting.values())))
            if self._told - waiting.keys():
                await tx.execute(_CLEAR, (self._worker, list(waiting)))
        self._told, self._told_at = set(waiting), now

    def _counts(self, now: float) -> dict[ModelId, int]:
        """Return how many wait, and one for each model at zero whose requests would not."""
        self._unmet |= dict.fromkeys(self._lines.take_unmet(), now + _UNMET_SECONDS)
        self._unmet = {pool: until for pool, until in self._unmet.items() if until > now}
        return dict.fromkeys(self._unmet, 1) | dict(self._lines.waiting())
