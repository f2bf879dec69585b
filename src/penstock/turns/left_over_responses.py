"""Ends background responses whose jobs were ended by a keeper that knows nothing of them.

While gateways of this release run beside keepers of an earlier one, such a keeper may run the job
of a background response. It ends the job as any other, and control ends the response soon after.
Control also frees conversations whose response is gone.
"""

import asyncio
import logging
from typing import Final

from penstock.errors import InternalError, StoreUnavailable
from penstock.jobs.submission import JobDesk
from penstock.records.account import AccountId
from penstock.records.job import JobFailure, JobId, JobState
from penstock.sessions import ResponseId, SessionBooks
from penstock.store import Store
from penstock.turns.background_responses import BackgroundResponses, ResponseJob

_LOOK_SECONDS: Final = 10.0
# A keeper of this release ends both at once.
_AFTER_SECONDS: Final = 5.0
_AT_ONCE: Final = 500
_GONE: Final = JobFailure(InternalError.code, "The job of this response is gone.")

logger = logging.getLogger(__name__)


class LeftOverResponses:
    """Looks every ten seconds, in the leading control process."""

    def __init__(
        self,
        store: Store,
        desk: JobDesk,
        books: SessionBooks,
        responses: BackgroundResponses,
    ) -> None:
        self._store = store
        self._desk = desk
        self._book = books.responses
        self._tenures = books.tenures
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
        """End what is left over now; return how many responses and tenures."""
        left = await self._book.left_over(_AFTER_SECONDS, _AT_ONCE)
        for id, account in left:
            try:
                await self._end(account, id)
            except StoreUnavailable:
                raise
            except Exception:
                # One that cannot be ended must not hold up the others.
                extra = {"action": "left_over_failed", "response": id}
                logger.exception("response not ended", extra=extra)
        return len(left) + await self._tenures.release_orphans()

    async def _end(self, account: AccountId, id: ResponseId) -> None:
        job = await self._desk.find(account, JobId(id))
        if job is None:
            ended = ResponseJob(JobId(id), account, JobState.FAILED, _GONE)
        else:
            ended = ResponseJob(job.id, account, job.state, job.failure)
        prepared = None
        if job is not None and job.state is JobState.SUCCEEDED:
            prepared = await self._responses.prepare(job, await self._desk.result_of(job))
        async with self._store.transaction() as tx:
            await self._responses.end(tx, ended, prepared)
