"""Handles jobs with lapsed claims, passed deadlines, due deferrals, or expired retention.

The leading control process runs it, a bounded number of jobs at a time. A delay loses no job: until
they are swept the jobs only wait.
"""

from collections.abc import Collection
from typing import Final

import msgspec

from penstock.errors import EngineLost, JobCancelled, JobExpired
from penstock.queue.after_job_end import FinishedJob, ended_from, record_ended_jobs, released
from penstock.queue.claims import wake
from penstock.queue.ending import told
from penstock.queue.queries import read_queries
from penstock.queue.settings import QueueSettings
from penstock.records.account import AccountId
from penstock.records.job import JobId, JobState, Released
from penstock.store import Transaction

_QUERIES: Final = read_queries("ending.sql")
_OLD_JOBS: Final = """
    select j.id::text, j.payload_object, j.result_object from jobs j
    where j.finished_at < now() - make_interval(secs => %s) and not exists (
        select from job_batches b where b.id = j.batch and b.state = 'open'
    )
    order by j.finished_at limit %s
"""
_ENDED_JOBS: Final = """
    select id::text, payload_object, result_object from jobs
    where account = %s and finished_at is not null limit %s
"""
_DELETE_BATCHES: Final = """
    delete from job_batches where id = any (array(
        select b.id from job_batches b
        where b.state = 'ended' and b.ended_at < now() - make_interval(secs => %s)
            and not exists (select from jobs j where j.batch = b.id)
        order by b.ended_at limit %s
        for update skip locked
    ))
"""


class Swept(msgspec.Struct, frozen=True):
    """The results of one round."""

    requeued: int
    failed: int
    cancelled: int
    expired: int
    # Deferred jobs that became claimable again.
    woken: int
    released: tuple[Released, ...]
    # A limit was reached, so more jobs may be left.
    is_full: bool
    ended: tuple[FinishedJob, ...] = ()


async def sweep(tx: Transaction, settings: QueueSettings) -> Swept:
    """Run one round over lapsed claims, passed deadlines and deferred jobs."""
    limit = settings.sweep_jobs_max
    lapsed = await _take_lapsed(tx, settings)
    late = await _expire(tx, limit)
    woken = await wake(tx, limit)
    states = [job.state for job in (*lapsed, *late)]
    ended = [job for job in (*lapsed, *late) if job.state.is_final]
    return Swept(
        requeued=states.count(JobState.QUEUED),
        failed=states.count(JobState.FAILED),
        cancelled=states.count(JobState.CANCELLED),
        expired=states.count(JobState.EXPIRED),
        woken=woken,
        released=released(ended),
        is_full=limit in (len(lapsed), len(late), woken),
        ended=tuple(ended),
    )


async def find_old(tx: Transaction, settings: QueueSettings) -> dict[JobId, list[str]]:
    """Return jobs past their retention, with the names of their objects."""
    rows = await tx.fetch(_OLD_JOBS, (settings.results_kept_seconds, settings.delete_jobs_max))
    return {JobId(id): [name for name in names if name] for id, *names in rows}


async def find_ended(tx: Transaction, account: AccountId, limit: int) -> dict[JobId, list[str]]:
    """Return ended jobs of an account, with the names of their objects."""
    rows = await tx.fetch(_ENDED_JOBS, (account, limit))
    return {JobId(id): [name for name in names if name] for id, *names in rows}


async def objects_of(tx: Transaction, account: AccountId, job: JobId) -> list[str] | None:
    """Return the names of an ended job's objects; None if there is no such job."""
    row = await tx.fetch_one(
        "select payload_object, result_object from jobs"
        " where id = %s and account = %s and finished_at is not null",
        (job, account),
    )
    return None if row is None else [name for name in row if name]


async def delete(tx: Transaction, jobs: Collection[JobId], settings: QueueSettings) -> None:
    """Delete ended jobs, then old ended batches that have no jobs left."""
    await tx.execute(
        "delete from jobs where id = any (%s::uuid[]) and finished_at is not null", (list(jobs),)
    )
    kept, limit = settings.results_kept_seconds, settings.delete_jobs_max
    await tx.execute(_DELETE_BATCHES, (kept, limit))


async def _take_lapsed(tx: Transaction, settings: QueueSettings) -> list[FinishedJob]:
    """Requeue or end jobs whose claim lapsed; no further pause, as the lapsed claim was one."""
    ends = {
        JobState.CANCELLED: told(JobCancelled),
        JobState.EXPIRED: told(JobExpired),
        JobState.FAILED: (
            EngineLost.code,
            f"Whoever ran this job was lost, {settings.attempts_max} times.",
            EngineLost.status,
        ),
        # Stored as the last error of the jobs that are retried.
        JobState.QUEUED: (
            EngineLost.code,
            "The keeper that ran this job was lost.",
            EngineLost.status,
        ),
    }
    columns = zip(*((state.value, *end) for state, end in ends.items()), strict=True)
    rows = await tx.fetch(
        _QUERIES["lapsed"] + _QUERIES["ended"],
        (*map(list, columns), settings.attempts_max, settings.sweep_jobs_max),
    )
    lapsed = ended_from(rows)
    await record_ended_jobs(tx, [job for job in lapsed if job.state.is_final])
    return lapsed


async def _expire(tx: Transaction, limit: int) -> list[FinishedJob]:
    """Expire jobs still queued at their deadline; as on cancel, move their account's tag back."""
    rows = await tx.fetch(_QUERIES["past_deadline"] + _QUERIES["ended"], (limit, *told(JobExpired)))
    late = ended_from(rows)
    await record_ended_jobs(tx, late, pull_back=True)
    return late
