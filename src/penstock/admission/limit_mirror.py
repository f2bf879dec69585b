"""A worker's own copy of all limits, kept up to date by reading the changed rows."""

import asyncio
import logging

from penstock import errors
from penstock.admission.limit_rows import Place, read_page, read_revision
from penstock.admission.limit_table import LimitTable
from penstock.admission.settings import AdmissionSettings
from penstock.store import Store

logger = logging.getLogger(__name__)

_RETRY_SECONDS_FIRST = 0.1
_RETRY_SECONDS_MAX = 5.0


class LimitMirror:
    """Keeps `table` up to date: `load` once, then `refresh` now and then.

    `is_current` is false while pages of changes are still to be read.
    """

    def __init__(self, store: Store, settings: AdmissionSettings) -> None:
        self.table = LimitTable()
        self.is_current = False
        self._store = store
        self._settings = settings
        # The table has all changes up to this revision; between pages, up to this place.
        self._revision = 0
        self._after: Place | None = None
        # A separate table while all limits are read again: a partial one would lack limits.
        self._next = self.table
        # Set, and replaced, when the table has further changes.
        self._advanced = asyncio.Event()

    async def caught_up(self) -> None:
        """Return when all limits that were written before this call hold here.

        Somebody else must call `refresh` meanwhile.
        """
        async with self._store.statement() as statement:
            wanted = await read_revision(statement)
        while self._revision < wanted:
            await self._advanced.wait()

    async def load(self) -> None:
        """Read all limits, retrying for a while; raise Overloaded if they exceed `limits_max`."""
        pause = _RETRY_SECONDS_FIRST
        for _ in range(self._settings.limits_load_attempts_max - 1):
            try:
                await self._refresh_all()
                break
            except errors.StoreUnavailable:
                logger.warning("limits not loaded yet", extra={"action": "limits_not_loaded"})
                await asyncio.sleep(pause)
                pause = min(pause * 2, _RETRY_SECONDS_MAX)
        else:
            await self._refresh_all()
        if len(self.table) > self._settings.limits_max:
            raise errors.Overloaded(
                f"There are more than {self._settings.limits_max} limits."
                " Raise admission.limits_max."
            )

    async def refresh(self) -> bool:
        """Apply a page of the changes since the last call; return whether there were any.

        Limits beyond `limits_max` that appear later are still kept: a limit that is missing here
        would not be applied.
        """
        if self.is_current:
            async with self._store.statement() as statement:
                if await read_revision(statement) == self._revision:
                    return False
        after, table = self._after or (self._revision + 1, 0), self._next
        known = self._after[0] if self._after else self._revision
        async with self._store.transaction() as transaction:
            # All rows with numbers up to this revision are visible: see migrations/0001.
            revision = await read_revision(transaction)
            if revision == self._revision and self._after is None:
                self.is_current = True
                return False
            if revision < known:
                # The database was restored to an earlier state: read all limits again.
                logger.warning("limits went back in time", extra={"action": "limits_went_back"})
                after, table = (1, 0), LimitTable()
            rows, next_page = await read_page(transaction, after)
        table.apply(rows)
        self._next, self._after = table, next_page
        self.is_current = next_page is None
        if self.is_current:
            self.table, self._revision = table, revision
            self._advanced.set()
            self._advanced = asyncio.Event()
        return True

    async def _refresh_all(self) -> None:
        self.is_current = False
        while not self.is_current:
            await self.refresh()
