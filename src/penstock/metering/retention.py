"""Drops what is older than it is kept for: whole days of the ledger, and old sums."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Final

from penstock.clock import Clock
from penstock.errors import StoreUnavailable
from penstock.metering.settings import Settings
from penstock.store import Store

_LOOK_SECONDS: Final = 3600.0
# A month's window may be asked for until it has ended; a journal may come in later than that.
_SPEND_DAYS: Final = 62

logger = logging.getLogger(__name__)


class Retention:
    """Once an hour, in the leading control process. What is dropped here is gone."""

    def __init__(self, store: Store, clock: Clock, settings: Settings) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings

    async def run(self) -> None:
        while True:
            try:
                await self.drop_old()
            except StoreUnavailable:
                logger.warning("old usage not dropped", extra={"action": "retention_waits"})
            await asyncio.sleep(_LOOK_SECONDS)

    async def drop_old(self) -> int:
        """Drop now; the number of days whose rows are gone."""
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        before = now - timedelta(days=self._settings.rollup_days)
        async with self._store.transaction() as transaction:
            day = (now - timedelta(days=self._settings.ledger_days)).date()
            dropped = await transaction.fetch_one("select drop_usage_days(%s)", (day,))
            await transaction.execute("delete from usage_hours where hour < %s", (before,))
            await transaction.execute("delete from usage_refusals where minute < %s", (before,))
            ended = now - timedelta(days=_SPEND_DAYS)
            await transaction.execute("delete from limit_spend where window_start < %s", (ended,))
        assert dropped is not None, "a count is one row"
        return int(dropped[0])
