"""Ends background responses whose jobs were ended by a keeper that knows nothing of them.

While gateways of this release run beside keepers of an earlier one, such a keeper may run the job
of a background response. It ends the job as any other, and control ends the response soon after.
"""

import asyncio
import logging
from typing import Final

from penstock.errors import StoreUnavailable
from penstock.jobs.submission import JobDesk
from penstock.queue import Queue
from penstock.records.job import Door, Job, JobState
from penstock.sessions import ResponseBook, ResponseId
from penstock.sessions.response_book import QUEUED
from penstock.store import Store
from penstock.turns.background_responses import BackgroundResponses, ResponseJob

_LOOK_SECONDS: Final = 10.0
# Jobs that ended within this time are looked at; a keeper of this release ends both at once.
_SINCE_SECONDS: Final = 600.0
_AT_ONCE: Final = 500

logger = logging.getLogger(__name__)


class LeftOverResponses:
    """Looks every ten seconds, in the leading control process."""

    def __init__(
        self,
        store: Store,
        queue: Queue,
        desk: JobDesk,
        book: ResponseBook,
        responses: BackgroundResponses,
    ) -> None:
        self._store = store
        self._queue = queue
        self._desk = desk
        self._book = book
        self._responses = responses

    async def run(self) -> None:
        while True:
            try:
                if count := await self.end_them():
                    logger.info("responses ended", extra={"action": "left_over", "count": count})
            except StoreUnavailable:
                logger.warning("responses wait", extra={"action": "left_over_wait"})
            except Exception:
                # Catch everything at the loop's top: the control process has other work too.
                logger.exception("responses not ended", extra={"action": "left_over_failed"})
            await asyncio.sleep(_LOOK_SECONDS)

    async def end_them(self) -> int:
        """End what is left over now; return how many responses."""
        async with self._store.transaction() as tx:
            jobs = await self._queue.ended_by(tx, Door.RESPONSES, _SINCE_SECONDS, _AT_ONCE)
        statuses = await self._book.statuses([ResponseId(job.id) for job in jobs]) if jobs else {}
        left = [job for job in jobs if statuses.get(ResponseId(job.id)) == QUEUED]
        for job in left:
            await self._end(job)
        return len(left)

    async def _end(self, job: Job) -> None:
        prepared = None
        if job.state is JobState.SUCCEEDED:
            result = await self._desk.result_of(job)
            prepared = await self._responses.prepare(job, result)
        ended = ResponseJob(job.id, job.account, job.state, job.failure)
        async with self._store.transaction() as tx:
            await self._responses.end(tx, ended, prepared)
