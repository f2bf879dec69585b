"""All Postgres calls of the puller: claims and their renewal, controls, and how jobs ended."""

import logging
from collections.abc import Sequence

import msgspec

from penstock.clock import Clock
from penstock.errors import JobCancelled, LeaseLost
from penstock.jobs.submission import JobDesk
from penstock.puller.complete import CompletionRooms, JobCompletion, complete
from penstock.puller.counts import PullerCounts
from penstock.puller.ended_job import EndedJob, Ending
from penstock.puller.failure_verdict import as_job_failure
from penstock.puller.settings import PullerSettings
from penstock.queue import Claim, FlexControl, Renewed
from penstock.records.job import ClaimedJob, JobId
from penstock.records.model import ModelId
from penstock.records.request import RequestEnd

logger = logging.getLogger(__name__)

_FINAL = (Ending.SUCCEEDED, Ending.FAILED, Ending.CANCELLED)


class WantedJobs(msgspec.Struct, frozen=True):
    """The jobs that one replica has room for."""

    model: ModelId
    count: int
    warm: tuple[int, ...]
    is_aged: bool
    # Only jobs of these accounts; empty: of all.
    accounts: tuple[str, ...] = ()


class JobBook:
    """Reads and writes jobs, each call in its own transaction; StoreUnavailable in an outage."""

    def __init__(
        self,
        rooms: CompletionRooms,
        desk: JobDesk,
        keeper: str,
        settings: PullerSettings,
        counts: PullerCounts,
        clock: Clock,
    ) -> None:
        self.counts = counts
        self._rooms = rooms
        self._desk = desk
        self._keeper = keeper
        self._lease_seconds = settings.lease_seconds
        self._defer_seconds = settings.defer_seconds
        self._clock = clock

    async def claim(self, wanted: WantedJobs) -> list[ClaimedJob]:
        claim = Claim(
            wanted.model,
            wanted.count,
            self._keeper,
            self._lease_seconds,
            warm=wanted.warm,
            aged_only=wanted.is_aged,
            accounts=wanted.accounts,
        )
        async with self._rooms.store.transaction() as transaction:
            return await self._rooms.queue.claim(transaction, claim)

    async def renew(self, held: Sequence[tuple[JobId, int]]) -> Renewed:
        async with self._rooms.store.transaction() as transaction:
            return await self._rooms.queue.renew(transaction, held, self._lease_seconds)

    async def controls(self) -> dict[ModelId, FlexControl]:
        async with self._rooms.store.transaction() as transaction:
            return await self._rooms.queue.controls(transaction)

    async def write(self, ended: Sequence[EndedJob]) -> None:
        """Write how jobs ended. A job that another keeper has claimed since is left as it is."""
        final = [each for each in ended if each.ending in _FINAL]
        if final:
            await self._complete(final)
        given_back = [each for each in ended if each.ending is Ending.GIVEN_BACK]
        if given_back:
            await self._give_back(given_back)
        deferred = [each for each in ended if each.ending is Ending.DEFERRED]
        if deferred:
            await self._defer(deferred)
        for each in ended:
            if each.ending is Ending.RETRY:
                await self._retry(each)

    async def _complete(self, ended: Sequence[EndedJob]) -> None:
        finished = await complete(self._rooms, [_completion(each) for each in ended])
        counts = self.counts
        for each in ended:
            if each.job.claimed.id in finished.cancelled:
                counts.cancelled += 1
            elif each.job.claimed.id not in finished.done:
                counts.lost += 1
            elif each.ending is Ending.SUCCEEDED:
                counts.succeeded += 1
                if each.facts is not None and each.facts.usage is not None:
                    counts.add_tokens(each.facts.usage)
            else:
                counts.failed += 1

    async def _give_back(self, ended: Sequence[EndedJob]) -> None:
        async with self._rooms.store.transaction() as transaction:
            back = await self._rooms.queue.give_back(transaction, _held(ended))
        self.counts.handed_back += len(back)
        self.counts.lost += len(ended) - len(back)

    async def _defer(self, ended: Sequence[EndedJob]) -> None:
        until = self._clock.now() + self._defer_seconds
        async with self._rooms.store.transaction() as transaction:
            back = await self._rooms.queue.defer(transaction, _held(ended), until)
        self.counts.handed_back += len(back)
        self.counts.lost += len(ended) - len(back)

    async def _retry(self, ended: EndedJob) -> None:
        assert ended.failure is not None, "what is tried again has failed"
        try:
            state = await self._desk.retry(ended.job.claimed, ended.failure)
        except LeaseLost:
            self.counts.lost += 1
            return
        if state.is_final:
            self.counts.failed += 1
        else:
            self.counts.retried += 1
            extra = {"action": "job_retried", "job": ended.job.claimed.id}
            logger.info("job tried again", extra={**extra, "reason": ended.failure.code})


def _held(ended: Sequence[EndedJob]) -> list[tuple[JobId, int]]:
    return [(each.job.claimed.id, each.job.claimed.epoch) for each in ended]


def _completion(ended: EndedJob) -> JobCompletion:
    failure = ended.failure
    if ended.ending is Ending.CANCELLED:
        failure = as_job_failure(JobCancelled())
    return JobCompletion(
        ended.job.claimed, ended.facts or RequestEnd(), result=ended.answer, failure=failure
    )
