"""What nobody holds any more: lapsed leases, past deadlines, deferred jobs, old answers.

The leading control process does this, a bounded number at a time. Nothing here hurries: until it is
done the jobs stand still, and none is lost.
"""

from collections.abc import Collection
from typing import Final

import msgspec

from penstock.errors import EngineLost, JobCancelled, JobExpired
from penstock.queue.after_job_end import FinishedJob, close_books, ended_from, released
from penstock.queue.claims import wake
from penstock.queue.ending import told
from penstock.queue.queries import read_queries
from penstock.queue.settings import QueueSettings
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
    """What one round found."""

    requeued: int
    failed: int
    cancelled: int
    expired: int
    # Deferred jobs that may be claimed again.
    woken: int
    released: tuple[Released, ...]
    # There may be more.
    is_full: bool


async def sweep(tx: Transaction, settings: QueueSettings) -> Swept:
    """One round over all kinds."""
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
    )


async def find_old(tx: Transaction, settings: QueueSettings) -> dict[JobId, list[str]]:
    """Jobs that are kept no longer, with the objects that belong to them."""
    rows = await tx.fetch(_OLD_JOBS, (settings.results_kept_seconds, settings.delete_jobs_max))
    return {JobId(id): [name for name in names if name] for id, *names in rows}


async def delete(tx: Transaction, jobs: Collection[JobId], settings: QueueSettings) -> None:
    """Delete jobs that have ended, then batches that have none left."""
    await tx.execute(
        "delete from jobs where id = any (%s::uuid[]) and finished_at is not null", (list(jobs),)
    )
    kept, limit = settings.results_kept_seconds, settings.delete_jobs_max
    await tx.execute(_DELETE_BATCHES, (kept, limit))


async def _take_lapsed(tx: Transaction, settings: QueueSettings) -> list[FinishedJob]:
    """Jobs whose keeper was not heard of: tried again at once, the lease was pause enough."""
    ends = {
        JobState.CANCELLED: told(JobCancelled),
        JobState.EXPIRED: told(JobExpired),
        JobState.FAILED: (
            EngineLost.code,
            f"Whoever ran this job was lost, {settings.attempts_max} times.",
            EngineLost.status,
        ),
        # Of those that are tried again.
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
    await close_books(tx, [job for job in lapsed if job.state.is_final])
    return lapsed


async def _expire(tx: Transaction, limit: int) -> list[FinishedJob]:
    """Jobs that were never begun in time: as with a cancel, their account's tag goes back."""
    rows = await tx.fetch(_QUERIES["past_deadline"] + _QUERIES["ended"], (limit, *told(JobExpired)))
    late = ended_from(rows)
    await close_books(tx, late, pull_back=True)
    return late
