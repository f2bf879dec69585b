"""Writes how jobs ended to Postgres, many at once, and keeps trying while Postgres is down.

A lapsed claim may still be this keeper's, as the epoch shows; after another `lease_seconds` it
surely is not. Then the job is dropped: another keeper runs it, and nothing of it was billed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.clock import Clock
from penstock.errors import StoreUnavailable
from penstock.puller.counts import PullerCounts
from penstock.puller.ended_job import EndedJob
from penstock.puller.pulled_job import PulledJob
from penstock.puller.settings import PullerSettings

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 0.2


class EndingBook(Protocol):
    """The port that `JobBook` satisfies."""

    async def write(self, ended: Sequence[EndedJob]) -> None: ...


class EndingWriter:
    """Takes ended jobs by `add` and writes them in `run`; calls `on_written` for each settled."""

    def __init__(
        self,
        book: EndingBook,
        settings: PullerSettings,
        clock: Clock,
        counts: PullerCounts,
        on_written: Callable[[PulledJob], None],
    ) -> None:
        self._book = book
        self._settings = settings
        self._clock = clock
        self._counts = counts
        self._on_written = on_written
        self._waiting: deque[EndedJob] = deque()
        self._has_some = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._busy = 0

    def add(self, ended: EndedJob) -> None:
        ended.job.is_ending = True
        self._waiting.append(ended)
        self._is_idle.clear()
        self._has_some.set()

    async def run(self) -> None:
        """Write ended jobs until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._settings.completions_max):
                group.create_task(self._write_for_ever())

    async def wait_until_written(self, seconds: float) -> bool:
        """Return whether all added jobs are settled within that time."""
        try:
            async with asyncio.timeout(seconds):
                await self._is_idle.wait()
        except TimeoutError:
            return False
        return True

    async def _write_for_ever(self) -> None:
        while True:
            await self._has_some.wait()
            # Jobs that end within a few milliseconds of each other share a transaction.
            await asyncio.sleep(self._settings.gather_seconds)
            batch = self._take()
            if not batch:
                continue
            self._busy += 1
            try:
                await self._write(batch)
            finally:
                self._busy -= 1
                self._note_idle()

    def _take(self) -> list[EndedJob]:
        count = min(len(self._waiting), self._settings.complete_max)
        batch = [self._waiting.popleft() for _ in range(count)]
        if not self._waiting:
            self._has_some.clear()
        return batch

    async def _write(self, batch: list[EndedJob]) -> None:
        try:
            await self._book.write(batch)
        except StoreUnavailable:
            await self._put_back(batch)
        except Exception:
            # Caught here so that one bad answer does not keep the others from being written.
            self._counts.failures += 1
            logger.exception("jobs not completed", extra={"action": "completion_failed"})
            if len(batch) > 1:
                middle = len(batch) // 2
                await self._write(batch[:middle])
                await self._write(batch[middle:])
            else:
                self._drop(batch[0])
        else:
            for ended in batch:
                self._on_written(ended.job)

    async def _put_back(self, batch: list[EndedJob]) -> None:
        await asyncio.sleep(_RETRY_SECONDS)
        now = self._clock.monotonic()
        for ended in batch:
            if now < ended.job.lease_until + self._settings.lease_seconds:
                self._waiting.append(ended)
                self._has_some.set()
            else:
                self._drop(ended)

    def _drop(self, ended: EndedJob) -> None:
        self._counts.lost += 1
        extra = {"action": "job_dropped", "job": ended.job.claimed.id}
        logger.warning("job not completed in time", extra=extra)
        self._on_written(ended.job)

    def _note_idle(self) -> None:
        if not self._waiting and not self._busy:
            self._is_idle.set()
