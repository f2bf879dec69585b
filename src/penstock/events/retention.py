"""Deletes events and undelivered webhooks that are past their retention."""

import asyncio
import logging
from datetime import timedelta
from typing import Final, LiteralString

from penstock.errors import StoreUnavailable
from penstock.events.settings import EventsSettings, WebhookSettings
from penstock.store import Store

_LOOK_SECONDS: Final = 60.0
_BATCH_ROWS: Final = 5000
# The log is written in order of time, so its first rows are the oldest.
_OLD_EVENTS: Final = """
delete from events where sequence = any (array(
    select sequence from (
        select sequence, logged_at from events order by sequence limit %s
    ) as oldest where logged_at < now() - %s
))
"""
_OLD_DELIVERIES: Final = """
delete from deliveries where id = any (array(
    select id from (
        select id, created_at from deliveries order by created_at limit %s
    ) as oldest where created_at < now() - %s
))
"""

logger = logging.getLogger(__name__)


class EventRetention:
    """Deletes old rows once a minute, in the leading control process."""

    def __init__(self, store: Store, settings: EventsSettings, webhooks: WebhookSettings) -> None:
        self._store = store
        self._keep_events = timedelta(hours=settings.keep_hours)
        self._keep_deliveries = timedelta(hours=webhooks.keep_hours)

    async def run(self) -> None:
        while True:
            try:
                await self.drop_old()
            except StoreUnavailable:
                logger.warning("old events not dropped", extra={"action": "events_kept"})
            except Exception:
                # Caught here so that the other work of control goes on.
                logger.exception("old events not dropped", extra={"action": "events_kept"})
            await asyncio.sleep(_LOOK_SECONDS)

    async def drop_old(self) -> int:
        """Delete old rows now; return how many."""
        events = await self._drop(_OLD_EVENTS, self._keep_events)
        return events + await self._drop(_OLD_DELIVERIES, self._keep_deliveries)

    async def _drop(self, statement: LiteralString, keep: timedelta) -> int:
        """Delete some thousand rows at a time: all in one transaction might never complete."""
        dropped, total = _BATCH_ROWS, 0
        while dropped == _BATCH_ROWS:
            async with self._store.transaction() as transaction:
                dropped = await transaction.execute(statement, (_BATCH_ROWS, keep))
            total += dropped
        return total
