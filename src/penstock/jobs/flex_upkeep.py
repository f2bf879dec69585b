"""The leading control's upkeep of the job queue: sweep, end batches, measure, delete.

Nothing here is urgent, and nothing is lost when it stops: the next leader continues.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from penstock.errors import StoreUnavailable
from penstock.jobs.submission import DeskRooms, JobDesk

_SWEEP_SECONDS: Final = 1.0
_MEASURE_SECONDS: Final = 5.0
# Short, with a few thousand rows at a time, because jobs end as fast as they come.
_DELETE_SECONDS: Final = 2.0
_BATCHES_AT_ONCE: Final = 500

logger = logging.getLogger(__name__)


class FlexUpkeep:
    """Runs one loop per duty, so that a slow one does not hold up the others."""

    def __init__(self, rooms: DeskRooms, desk: JobDesk) -> None:
        self._store = rooms.store
        self._queue = rooms.queue
        self._batches = rooms.batches
        self._desk = desk

    async def run(self) -> None:
        """Run until cancelled; losing the leadership must cancel this."""
        async with asyncio.TaskGroup() as group:
            group.create_task(_repeat(self.sweep, _SWEEP_SECONDS))
            group.create_task(_repeat(self.end_batches, _SWEEP_SECONDS))
            group.create_task(_repeat(self.measure, _MEASURE_SECONDS))
            group.create_task(_repeat(self.delete, _DELETE_SECONDS))

    async def sweep(self) -> bool:
        """Sweep jobs that no keeper has a claim to; return whether there may be more."""
        return (await self._desk.sweep()).is_full

    async def end_batches(self) -> bool:
        """End Workers AI's batches whose jobs have all ended; return whether there may be more."""
        async with self._store.transaction() as transaction:
            ended = await self._batches.finalize_ready(transaction, _BATCHES_AT_ONCE)
        return len(ended) == _BATCHES_AT_ONCE

    async def measure(self) -> bool:
        async with self._store.transaction() as transaction:
            await self._queue.measure(transaction)
        return False

    async def delete(self) -> bool:
        await self._desk.delete_old()
        return False


async def _repeat(act: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Repeat `act` at once while there is more to do, else after a pause."""
    while True:
        has_more = False
        try:
            has_more = await act()
        except StoreUnavailable:
            logger.warning("queue upkeep waits", extra={"action": "upkeep_waits"})
        except Exception:
            # Caught here so that the other work of control goes on.
            logger.exception("queue upkeep failed", extra={"action": "upkeep_failed"})
        if not has_more:
            await asyncio.sleep(seconds)
