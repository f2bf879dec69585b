"""Drops what is older than it is kept for: whole days of the ledger, and old sums."""

import asyncio
import logging
from datetime import UTC, datetime, timedelta
from typing import Final, LiteralString

from penstock.clock import Clock
from penstock.errors import StoreUnavailable
from penstock.metering.settings import MeteringSettings
from penstock.store import Store

_LOOK_SECONDS: Final = 3600.0
_BATCH_ROWS: Final = 5000
_OLD_HOURS: Final = """
delete from usage_hours where ctid = any (array(
    select ctid from usage_hours where hour < %s limit %s
))
"""
_OLD_REFUSALS: Final = """
delete from usage_refusals where ctid = any (array(
    select ctid from usage_refusals where minute < %s limit %s
))
"""
# A window's spend is read until the window has ended; a journal may come in later than that.
_OLD_SPEND: Final = """
delete from limit_spend where ctid = any (array(
    select s.ctid from limit_spend s left join limits l on l.id = s.limit_id
    where s.window_start + case l.period
        when 'minute' then interval '1 day' when 'day' then interval '3 days'
        else interval '62 days' end < %s
    limit %s
))
"""

logger = logging.getLogger(__name__)


class Retention:
    """Once an hour, in the leading control process. What is dropped here is gone."""

    def __init__(self, store: Store, clock: Clock, settings: MeteringSettings) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings

    async def run(self) -> None:
        while True:
            try:
                await self.drop_old()
            except StoreUnavailable:
                logger.warning("old usage not dropped", extra={"action": "retention_waits"})
            except Exception:
                # The loop's top: control has other work than this.
                logger.exception("old usage not dropped", extra={"action": "retention_failed"})
            await asyncio.sleep(_LOOK_SECONDS)

    async def drop_old(self) -> int:
        """Drop now; the number of days whose rows are gone."""
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        day = (now - timedelta(days=self._settings.ledger_days)).date()
        async with self._store.transaction() as transaction:
            dropped = await transaction.fetch_one("select drop_usage_days(%s)", (day,))
        assert dropped is not None, "a count is one row"
        before = now - timedelta(days=self._settings.rollup_days)
        for statement, time in ((_OLD_HOURS, before), (_OLD_REFUSALS, before), (_OLD_SPEND, now)):
            await self._delete(statement, time)
        return int(dropped[0])

    async def _delete(self, statement: LiteralString, time: datetime) -> None:
        """Some thousand rows at a time: what took too long for one transaction would never end."""
        deleted = _BATCH_ROWS
        while deleted == _BATCH_ROWS:
            async with self._store.transaction() as transaction:
                deleted = await transaction.execute(statement, (time, _BATCH_ROWS))
