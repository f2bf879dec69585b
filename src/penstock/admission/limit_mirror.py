"""A worker's own copy of all limits, brought up to date by asking for what changed."""

import asyncio
import logging

from penstock import errors
from penstock.admission.limit_rows import read_limits, read_revision
from penstock.admission.limit_table import LimitTable
from penstock.admission.settings import Settings
from penstock.store import Store

logger = logging.getLogger(__name__)

_RETRY_SECONDS_FIRST = 0.1
_RETRY_SECONDS_MAX = 5.0


class LimitMirror:
    """`load` once, `refresh` now and then; `table` is what is known."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.table = LimitTable()
        self._store = store
        self._settings = settings
        self._revision = 0

    async def load(self) -> None:
        """Read all limits, trying for a while; refuse to start with more than may be held."""
        pause = _RETRY_SECONDS_FIRST
        for _ in range(self._settings.limits_load_attempts_max - 1):
            try:
                await self.refresh()
                break
            except errors.StoreUnavailable:
                logger.warning("limits not loaded yet", extra={"action": "limits_not_loaded"})
                await asyncio.sleep(pause)
                pause = min(pause * 2, _RETRY_SECONDS_MAX)
        else:
            await self.refresh()
        if len(self.table) > self._settings.limits_max:
            raise errors.Overloaded(
                f"There are more than {self._settings.limits_max} limits."
                " Raise admission.limits_max."
            )

    async def refresh(self) -> bool:
        """Take in what changed since the last time; whether anything did.

        Limits beyond `limits_max` that appear later are held all the same: one that is not here
        would be no limit.
        """
        async with self._store.transaction() as transaction:
            # Whatever is numbered up to it is visible by then: see migrations/0001.
            revision = await read_revision(transaction)
            if revision == self._revision:
                return False
            table, since = self.table, self._revision
            if revision < since:
                # The database was put back to an earlier state: begin afresh.
                logger.warning("limits went back in time", extra={"action": "limits_went_back"})
                table, since = LimitTable(), 0
            async for rows in read_limits(transaction, since):
                table.apply(rows)
        self.table, self._revision = table, revision
        return True
