"""Looks up an account's jobs, with their position and expected time, and renders them as JSON."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import UNSET

from penstock.ingress.jobs.job_failure import job_error
from penstock.metering import usd
from penstock.queue import JobQuery, Queue
from penstock.records.account import AccountId
from penstock.records.job import Door, Job, JobId, JobState
from penstock.store import Store
from penstock.wire.resources.batches import public_id
from penstock.wire.resources.jobs import JobAnswer, JobError, JobUsage, is_id


class SeenJob(msgspec.Struct, frozen=True):
    """A job and, while it is queued, its position in its account's queue and expected time."""

    job: Job
    position: int | None = None
    eta_seconds: float | None = None


class JobLookup:
    """Reads the queue, each time in a transaction of its own."""

    def __init__(self, store: Store, queue: Queue) -> None:
        self._store = store
        self._queue = queue

    async def find(self, account: AccountId | None, job_id: JobId) -> SeenJob | None:
        """Return an account's job, or None; `account` is None for operators, who see all."""
        if not is_id(job_id):
            return None
        async with self._store.transaction() as transaction:
            job = await self._queue.find(transaction, account, job_id)
            if job is None or job.state is not JobState.QUEUED:
                return None if job is None else SeenJob(job)
            return SeenJob(
                job,
                await self._queue.position(transaction, job_id),
                await self._queue.eta_seconds(transaction, job_id),
            )

    async def ended(self, jobs: Sequence[JobId]) -> Sequence[Job]:
        """Return those of the jobs that have ended."""
        async with self._store.transaction() as transaction:
            return await self._queue.ended(transaction, jobs)

    async def page(self, query: JobQuery) -> tuple[list[Job], bool]:
        """Return jobs without their results, newest first, and whether there are more."""
        limit = max(1, min(query.limit, self._queue.settings.page_jobs_max - 1))
        asked = msgspec.structs.replace(query, limit=limit + 1)
        async with self._store.transaction() as transaction:
            jobs = await self._queue.list_jobs(transaction, asked)
        return jobs[:limit], len(jobs) > limit


def job_answer(job: Job, seen: SeenJob | None = None) -> JobAnswer:
    """Render a job without its result; `seen` adds the position and expected time."""
    usage = job.usage
    error, last = job_error(job), job.last_error
    return JobAnswer(
        id=job.id,
        account=job.account,
        model=job.model,
        state=job.state,
        door=job.door,
        priority=job.priority.name.lower(),
        batch=public_id(job.batch) if job.batch and job.door is Door.BATCHES else job.batch,
        reference=job.reference,
        created_at=_time(job.created_at),
        started_at=None if job.started_at is None else _time(job.started_at),
        finished_at=None if job.finished_at is None else _time(job.finished_at),
        deadline=_time(job.deadline),
        attempts=job.attempts,
        is_cancelling=job.is_cancelling,
        usage=None
        if usage is None
        else JobUsage(
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.prompt_tokens + usage.completion_tokens,
            usage.cached_tokens,
        ),
        cost_nanousd=job.charge_nanousd,
        cost_usd=usd(job.charge_nanousd),
        error=None if error is None else JobError(error.code, error.message),
        last_error=None if last is None else JobError(last.code, last.message),
        position=UNSET if seen is None else seen.position,
        eta_seconds=UNSET if seen is None else seen.eta_seconds,
    )


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
