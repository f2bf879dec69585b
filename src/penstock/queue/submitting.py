"""Adds any number of one account's jobs in one statement, each job once.

An account's tag advances only for rows that are added, so a repeated submission costs it nothing.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from penstock.errors import QueueFull
from penstock.queue.queries import read_queries
from penstock.queue.rows import signed
from penstock.records.job import JobId, NewJob, Submission
from penstock.store import Transaction

_QUERIES: Final = read_queries("submitting.sql")


class Submitted(msgspec.Struct, frozen=True):
    """The ids in the order of the submission; a job that already existed has its existing id."""

    ids: tuple[JobId, ...]
    # The ids that this submission added. Only these jobs may have a hold.
    new: frozenset[JobId]

    @property
    def added(self) -> int:
        return len(self.new)


async def submit(
    tx: Transaction, submission: Submission, jobs: Sequence[NewJob], open_jobs_max: int
) -> Submitted:
    """Add the jobs that do not exist yet, or none if they exceed the account's limit."""
    firsts = _first_by_key(jobs)
    await tx.execute(_QUERIES["lock_account"], (submission.account,))
    placed = await tx.fetch_one(
        _QUERIES["place"],
        (submission.model, submission.priority, submission.account, submission.weight),
    )
    assert placed is not None, "an upsert returns its row"
    start, open_jobs = placed
    room = open_jobs_max - open_jobs
    rows = await tx.fetch(
        _QUERIES["add"], (*_shared(submission), start, room, *_columns(list(firsts.values())))
    )
    wanted = sum(is_fresh for _, is_fresh, _ in rows)
    new = frozenset(JobId(id) for id, _, is_added in rows if is_added)
    if wanted > len(new):
        raise QueueFull(
            f"This account may have {open_jobs_max} jobs waiting and running; {max(room, 0)} more"
            f" would be let in, and these are {wanted}."
        )
    ids = {key: JobId(row[0]) for key, row in zip(firsts, rows, strict=True)}
    return Submitted(tuple(ids[_key_of(job)] for job in jobs), new)


def _key_of(job: NewJob) -> str:
    # The prefix keeps a key chosen by a caller from being mistaken for an id, and vice versa.
    return f"id {job.id}" if job.idempotency_key is None else f"key {job.idempotency_key}"


def _first_by_key(jobs: Sequence[NewJob]) -> dict[str, NewJob]:
    """Keep the first of the jobs that have the same idempotency key in one submission."""
    firsts: dict[str, NewJob] = {}
    for job in jobs:
        firsts.setdefault(_key_of(job), job)
    return firsts


def _shared(submission: Submission) -> tuple[object, ...]:
    return (
        submission.account,
        submission.key,
        submission.model,
        submission.door.value,
        submission.priority,
        submission.batch,
        submission.deadline,
        submission.weight,
    )


def _columns(jobs: Sequence[NewJob]) -> tuple[list[object], ...]:
    return (
        [job.id for job in jobs],
        [job.item for job in jobs],
        [job.reference for job in jobs],
        [job.idempotency_key for job in jobs],
        [job.tokens for job in jobs],
        [signed(job.ticket.chain.opening) for job in jobs],
        [job.payload for job in jobs],
        [job.payload_object for job in jobs],
        [msgspec.msgpack.encode(job.ticket) for job in jobs],
        [job.ticket.held_nanousd if job.ticket.limits else 0 for job in jobs],
        # Postgres arrays of arrays must be rectangular, so each inner array is passed as text.
        [f"{{{','.join(map(str, job.ticket.limits))}}}" for job in jobs],
        [job.ticket.workflow for job in jobs],
        [job.ticket.session for job in jobs],
    )
