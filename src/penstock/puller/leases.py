"""Renews the claims to all of this keeper's jobs, in one statement every third of their time.

A job whose claim is lost is stopped and forgotten; a job whose caller cancelled it is stopped.
While Postgres is down jobs run on: no other keeper can claim them, and a later renewal shows whose
they are.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from penstock.clock import Clock
from penstock.errors import StoreUnavailable
from penstock.puller.counts import PullerCounts
from penstock.puller.job_book import JobBook
from penstock.puller.pulled_job import PulledJob, StopReason
from penstock.puller.settings import PullerSettings

if TYPE_CHECKING:
    from penstock.records.job import JobId

logger = logging.getLogger(__name__)

_PARTS = 3


class Leases:
    """The claims to jobs, each from its start until the job's end is written."""

    def __init__(
        self, book: JobBook, settings: PullerSettings, clock: Clock, counts: PullerCounts
    ) -> None:
        self._book = book
        self._seconds = settings.lease_seconds
        self._clock = clock
        self._counts = counts
        self._held: dict[JobId, PulledJob] = {}

    def add(self, job: PulledJob) -> None:
        self._held[job.claimed.id] = job

    def remove(self, job: PulledJob) -> None:
        # If the job was handed back and claimed again at once, the newer claim stays.
        if self._held.get(job.claimed.id) is job:
            del self._held[job.claimed.id]

    async def run(self) -> None:
        """Renew the claims until cancelled."""
        while True:
            await asyncio.sleep(self._seconds / _PARTS)
            try:
                await self.renew()
            except StoreUnavailable:
                logger.warning("leases not renewed", extra={"action": "leases_not_renewed"})
            except Exception:
                # Caught here because the next renewal comes before the claims lapse.
                self._counts.failures += 1
                logger.exception("leases not renewed", extra={"action": "leases_not_renewed"})

    async def renew(self) -> None:
        """Renew all current claims once."""
        held = list(self._held.values())
        if not held:
            return
        until = self._clock.monotonic() + self._seconds
        renewed = await self._book.renew([(job.claimed.id, job.claimed.epoch) for job in held])
        for job in held:
            if job.claimed.id in renewed.kept:
                job.lease_until = until
            elif job.claimed.id in renewed.cancelled:
                job.lease_until = until
                job.end(StopReason.CANCELLED)
            elif not job.is_ending:
                self._lose(job)

    def _lose(self, job: PulledJob) -> None:
        self._counts.lost += 1
        self.remove(job)
        job.end(StopReason.LOST)
        logger.info("job lease lost", extra={"action": "lease_lost", "job": job.claimed.id})
