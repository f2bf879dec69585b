"""Lets requests wait for their jobs' ends, with one periodic Postgres query for all of them.

When a caller disconnects while its job is queued or running, the job is cancelled in the next
round, or in a later one if Postgres is down.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from penstock.admission import ConcurrencySlots
from penstock.errors import StoreUnavailable
from penstock.ingress.settings import IngressSettings
from penstock.records.account import AccountId
from penstock.records.job import Job, JobId

FindEnded = Callable[[Sequence[JobId]], Awaitable[Sequence[Job]]]
Cancel = Callable[[AccountId, JobId], Awaitable[object]]

_IDS_MAX: Final = 1000
_CANCELS_MAX: Final = 50
_FINISH_SECONDS: Final = 10.0

logger = logging.getLogger(__name__)


class JobWaits:
    """One per worker. `wait` for an end, `give_up` a job; `run` is the loop that serves both."""

    def __init__(self, find_ended: FindEnded, cancel: Cancel, settings: IngressSettings) -> None:
        self._find_ended = find_ended
        self._cancel = cancel
        self._settings = settings
        self._waiting: dict[JobId, list[asyncio.Future[Job]]] = {}
        self._given_up: dict[JobId, AccountId] = {}
        self._places = ConcurrencySlots(
            "requests that wait for their jobs",
            settings.job_waits_max,
            settings.job_waits_per_account_max,
        )
        self.failures = 0
        self.forgotten = 0

    def __len__(self) -> int:
        return len(self._places)

    def place(self, account: AccountId) -> contextlib.AbstractContextManager[None]:
        """Take one of the bounded places, before a job is irrevocably submitted."""
        return self._places.take(account)

    async def wait(self, job: JobId, seconds: float | None = None) -> Job | None:
        """Return the job when it has ended; None if that takes longer than `seconds`."""
        ended: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job, []).append(ended)
        try:
            async with asyncio.timeout(seconds):
                return await ended
        except TimeoutError:
            return None
        finally:
            waiters = self._waiting.get(job, [])
            if ended in waiters:
                waiters.remove(ended)
            if not waiters:
                self._waiting.pop(job, None)

    def give_up(self, account: AccountId, job: JobId) -> None:
        """Cancel soon a job for which no caller waits any more.

        In a long outage the oldest are forgotten: they still run, if they were queued at all.
        """
        if len(self._given_up) >= self._settings.job_waits_max:
            self._given_up.pop(next(iter(self._given_up)))
            self.forgotten += 1
        self._given_up[job] = account

    async def run(self) -> None:
        """Look for ended jobs and cancel those given up, until cancelled."""
        while True:
            await asyncio.sleep(self._settings.job_poll_seconds)
            try:
                await self.look()
            except Exception:
                # Caught here so that the waiting requests are served in the next round.
                self.failures += 1
                logger.exception("job waits crashed", extra={"action": "job_waits_crashed"})

    async def finish(self) -> None:
        """Before the worker stops, spend up to `_FINISH_SECONDS` on cancelling given-up jobs."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_SECONDS):
                while (left := len(self._given_up)) > 0:
                    await self.look()
                    if len(self._given_up) >= left:
                        return

    async def look(self) -> None:
        """Run one round: resolve the waits of ended jobs, cancel some given-up jobs."""
        try:
            for ids in _pieces(list(self._waiting)):
                for job in await self._find_ended(ids):
                    self._tell(job)
            # Only some per round, so that requests that wait for a job are not held up.
            for each, account in list(islice(self._given_up.items(), _CANCELS_MAX)):
                await self._cancel(account, each)
                self._given_up.pop(each, None)
        except StoreUnavailable:
            # The requests go on waiting; the next round queries again.
            self.failures += 1
            logger.warning("cannot look for ended jobs", extra={"action": "job_waits_blind"})

    def _tell(self, job: Job) -> None:
        for ended in self._waiting.get(job.id, ()):
            if not ended.done():
                ended.set_result(job)


def _pieces(ids: Sequence[JobId]) -> Iterator[Sequence[JobId]]:
    """Split the ids into pieces of at most `_IDS_MAX`, one per query."""
    return (ids[at : at + _IDS_MAX] for at in range(0, len(ids), _IDS_MAX))
