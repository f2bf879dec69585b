"""Deletes usage older than its retention period: whole days of the ledger, and old sums."""

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
_OLD_REPLICA_HOURS: Final = """
delete from replica_hours where ctid = any (array(
    select ctid from replica_hours where hour < %s limit %s
))
"""
_OLD_WORKFLOW_HOURS: Final = """
delete from workflow_hours where ctid = any (array(
    select ctid from workflow_hours where hour < %s limit %s
))
"""
_OLD_REFUSALS: Final = """
delete from usage_refusals where ctid = any (array(
    select ctid from usage_refusals where minute < %s limit %s
))
"""
# Kept beyond the end of the window, because a journal may be drained later.
_OLD_SPEND: Final = """
delete from limit_spend where ctid = any (array(
    select s.ctid from limit_spend s left join limits l on l.id = s.limit_id
    where s.window_start + case l.period
        when 'minute' then interval '1 day' when 'day' then interval '3 days'
        else interval '62 days' end < %s
    limit %s
))
"""
# A month's window, and as long again: who was told of it is not told twice.
_OLD_NOTICES: Final = """
delete from limit_notices where ctid = any (array(
    select ctid from limit_notices where window_start < %s - interval '62 days' limit %s
))
"""

logger = logging.getLogger(__name__)


class Retention:
    """Deletes old usage for good, once an hour, in the leading control process."""

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
                # A failure here must not stop the control process's other work.
                logger.exception("old usage not dropped", extra={"action": "retention_failed"})
            await asyncio.sleep(_LOOK_SECONDS)

    async def drop_old(self) -> int:
        """Delete old usage now; return the number of ledger days dropped."""
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        day = (now - timedelta(days=self._settings.ledger_days)).date()
        async with self._store.transaction() as transaction:
            dropped = await transaction.fetch_one("select drop_usage_days(%s)", (day,))
            await transaction.execute("select drop_session_days(%s)", (day,))
        assert dropped is not None, "a count is one row"
        before = now - timedelta(days=self._settings.rollup_days)
        for statement in (_OLD_HOURS, _OLD_REPLICA_HOURS, _OLD_WORKFLOW_HOURS, _OLD_REFUSALS):
            await self._delete(statement, before)
        for statement in (_OLD_SPEND, _OLD_NOTICES):
            await self._delete(statement, now)
        return int(dropped[0])

    async def _delete(self, statement: LiteralString, time: datetime) -> None:
        """Delete in batches: one transaction for all could time out each time and never succeed."""
        deleted = _BATCH_ROWS
        while deleted == _BATCH_ROWS:
            async with self._store.transaction() as transaction:
                deleted = await transaction.execute(statement, (time, _BATCH_ROWS))
