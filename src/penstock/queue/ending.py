"""Ends jobs that finished, failed or were cancelled; `sweeping` ends the others.

A job ends once: each statement requires the state it leaves, and a keeper's also the epoch of its
claim. The end clears the job's payload.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from penstock.errors import Error, JobCancelled, LeaseLost
from penstock.queue import job_queries
from penstock.queue.after_job_end import FinishedJob, ended_from, record_ended_jobs, released
from penstock.queue.back_off import pause_seconds
from penstock.queue.queries import read_queries
from penstock.queue.settings import QueueSettings
from penstock.records.account import AccountId
from penstock.records.job import BatchId, Job, JobEnd, JobFailure, JobId, JobState, Released
from penstock.store import Transaction

_QUERIES: Final = read_queries("ending.sql")


class Finished(msgspec.Struct, frozen=True):
    """Which ends were applied; a job in neither set was no longer this keeper's."""

    # Succeeded or failed, as given. The caller settles their holds with their charges.
    done: frozenset[JobId]
    # Cancelled by their callers in the meantime: no answer is kept, nothing is charged.
    cancelled: frozenset[JobId]
    # The holds of the cancelled jobs.
    released: tuple[Released, ...]
    ended: tuple[FinishedJob, ...] = ()


class Retried(msgspec.Struct, frozen=True):
    """The job's state: queued again, or ended as failed or cancelled, then with its hold."""

    state: JobState
    released: tuple[Released, ...]
    ended: tuple[FinishedJob, ...] = ()


class Cancelled(msgspec.Struct, frozen=True):
    """The job as it is now: cancelled, about to be cancelled, or already ended otherwise."""

    job: Job
    released: tuple[Released, ...]
    ended: tuple[FinishedJob, ...] = ()


class CancelledBatch(msgspec.Struct, frozen=True):
    """How many jobs of a batch this call cancelled or asked to stop; 0 when none is left."""

    count: int
    released: tuple[Released, ...]
    ended: tuple[FinishedJob, ...] = ()


async def finish(tx: Transaction, ends: Sequence[JobEnd]) -> Finished:
    """End jobs with an answer or a failure."""
    ended = await _finish(tx, ends)
    cancelled = [job for job in ended if job.state is JobState.CANCELLED]
    ids = frozenset(job.id for job in cancelled)
    done = frozenset(job.id for job in ended) - ids
    return Finished(done, ids, released(cancelled), tuple(ended))


async def retry(
    tx: Transaction, held: tuple[JobId, int], failure: JobFailure, settings: QueueSettings
) -> Retried:
    """Requeue a job after a growing pause if attempts and time are left; otherwise fail it."""
    row = await tx.fetch_one(_QUERIES["held"], held)
    if row is None:
        raise LeaseLost
    attempts, is_cancelling, seconds_left = row
    pause = pause_seconds(attempts, settings)
    if not is_cancelling and attempts < settings.attempts_max and pause < seconds_left:
        await tx.execute(_QUERIES["try_again"], (pause, failure.code, _plain(failure), *held))
        return Retried(JobState.QUEUED, ())
    job, epoch = held
    ended = await _finish(tx, [JobEnd(job, epoch, failure=failure)])
    return Retried(ended[0].state, released(ended), tuple(ended))


async def cancel(tx: Transaction, account: AccountId | None, job: JobId) -> Cancelled | None:
    """Cancel a waiting job now; a running one is marked, and its keeper stops it."""
    touched = await _cancel(tx, "cancel", (job, account))
    ended = [each for each in touched if each.state.is_final]
    await record_ended_jobs(tx, ended, pull_back=True)
    found = await job_queries.find(tx, account, job)
    return None if found is None else Cancelled(found, released(ended), tuple(ended))


async def cancel_batch(
    tx: Transaction, account: AccountId | None, batch: BatchId, limit: int
) -> CancelledBatch | None:
    """Cancel a batch's waiting jobs, and mark its running ones for their keepers to stop.

    At most `limit` jobs per call, because a statement that times out would cancel none.
    """
    found = await tx.fetch_one(
        "select from job_batches where id = %s and account = coalesce(%s, account)",
        (batch, account),
    )
    if found is None:
        return None
    touched = await _cancel(tx, "cancel_batch", (batch, limit))
    ended = [job for job in touched if job.state.is_final]
    await record_ended_jobs(tx, ended, pull_back=True)
    # After the jobs, because locks are taken in the same order everywhere.
    await tx.execute(
        "update job_batches set is_cancelling = true where id = %s and state = 'open'", (batch,)
    )
    return CancelledBatch(len(touched), released(ended), tuple(ended))


def told(error: type[Error]) -> tuple[str, str, int]:
    """Return the code, message and status that a caller gets for one of our errors."""
    return error.code, error().message, error.status


async def _cancel(tx: Transaction, which: str, asked: tuple[object, ...]) -> list[FinishedJob]:
    """Cancel jobs. If none is found, look again: one that a keeper claims at this moment is locked
    by the first statement, but that statement still sees it as queued and changes nothing.
    """
    statement = _QUERIES[which] + _QUERIES["cancel_locked"] + _QUERIES["ended"]
    parameters = (*asked, *told(JobCancelled))
    rows = await tx.fetch(statement, parameters) or await tx.fetch(statement, parameters)
    return ended_from(rows)


async def _finish(tx: Transaction, ends: Sequence[JobEnd]) -> list[FinishedJob]:
    rows = await tx.fetch(
        _QUERIES["finish"] + _QUERIES["ended"], (*_columns(ends), *told(JobCancelled))
    )
    ended = ended_from(rows)
    await record_ended_jobs(tx, ended)
    return ended


def _columns(ends: Sequence[JobEnd]) -> tuple[list[object], ...]:
    failures = [end.failure for end in ends]
    usages = [end.usage for end in ends]
    return (
        [end.id for end in ends],
        [end.epoch for end in ends],
        [end.result for end in ends],
        [end.result_object for end in ends],
        [failure and failure.code for failure in failures],
        [failure and _plain(failure) for failure in failures],
        [failure and failure.status for failure in failures],
        [usage and usage.prompt_tokens for usage in usages],
        [usage and usage.completion_tokens for usage in usages],
        [usage and usage.cached_tokens for usage in usages],
        [end.charge_nanousd for end in ends],
        [end.replica for end in ends],
    )


def _plain(failure: JobFailure) -> str:
    """Return the message without NULs, which engines may send and Postgres cannot store."""
    return failure.message.replace("\0", "")
