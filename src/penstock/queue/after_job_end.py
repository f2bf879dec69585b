"""Updates the fair order, the batches' counts and the events after jobs have ended.

Code that ends jobs calls `record_ended_jobs` in the same transaction, after it updates the jobs'
rows: locks are taken in one order everywhere (jobs, tags, batches), so that two transactions that
end jobs cannot deadlock.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from penstock.clock import timestamp_of
from penstock.queue import outbox
from penstock.queue.outbox import NewEvent
from penstock.queue.queries import read_queries
from penstock.records.account import AccountId, KeyId
from penstock.records.job import FINAL_STATES, BatchId, Door, JobId, JobState, Released
from penstock.records.model import ModelId
from penstock.store import Transaction
from penstock.store.pool import Row

_QUERIES: Final = read_queries("after_job_end.sql")


class FinishedJob(msgspec.Struct, frozen=True):
    """The fields of an ended job that other tables need."""

    id: JobId
    account: AccountId
    key: KeyId
    model: ModelId
    priority: int
    batch: BatchId | None
    state: JobState
    # The estimated tokens in the fair order, the account's weight, and the tokens really used.
    tokens: int
    weight: int
    used: int | None
    held: int
    limits: tuple[int, ...]
    workflow: str
    session: str
    failure_code: str | None
    failure_message: str | None
    door: Door

    @property
    def correction(self) -> float:
        """How far to move the account's tag for tokens used beyond the estimate; 0 if unknown."""
        return 0.0 if self.used is None else (self.used - self.tokens) / self.weight


def ended_from(rows: Iterable[Row]) -> list[FinishedJob]:
    """Return the rows of the statement `ended`; some may be jobs that continue, see `state`."""
    return [msgspec.convert(row, FinishedJob, strict=False) for row in map(_by_name, rows)]


async def record_ended_jobs(
    tx: Transaction, ended: Sequence[FinishedJob], *, pull_back: bool = False
) -> None:
    """Record ended jobs. `pull_back`: they ended while queued, so move their account's tag back."""
    if not ended:
        return
    await tx.execute(_QUERIES["pull_tags_back" if pull_back else "correct_tags"], _tags(ended))
    in_batches = [job for job in ended if job.batch is not None]
    if in_batches:
        await tx.execute(_QUERIES["count_batches"], _batch_counts(in_batches))
    # A batch publishes one event at its end, instead of one for each of up to 50,000 jobs.
    await outbox.add(tx, [_event(job) for job in ended if job.batch is None])


def released(ended: Iterable[FinishedJob]) -> tuple[Released, ...]:
    """Return the holds that these jobs had on their limits."""
    return tuple(
        Released(
            account=job.account,
            key=job.key,
            workflow=job.workflow,
            session=job.session,
            limits=job.limits,
            nanousd=job.held,
            asked_at=timestamp_of(job.id),
        )
        for job in ended
        if job.limits
    )


def _by_name(row: Row) -> dict[str, object]:
    return dict(zip(FinishedJob.__struct_fields__, row, strict=True))


def _tags(ended: Sequence[FinishedJob]) -> tuple[list[object], ...]:
    jobs: Counter[tuple[str, int, str]] = Counter()
    corrections: dict[tuple[str, int, str], float] = defaultdict(float)
    for job in ended:
        place = (job.model, job.priority, job.account)
        jobs[place] += 1
        corrections[place] += job.correction
    return (
        [model for model, _, _ in jobs],
        [priority for _, priority, _ in jobs],
        [account for _, _, account in jobs],
        list(jobs.values()),
        [corrections[place] for place in jobs],
    )


def _batch_counts(ended: Sequence[FinishedJob]) -> tuple[list[object], ...]:
    counts: dict[BatchId, Counter[JobState]] = defaultdict(Counter)
    for job in ended:
        assert job.batch is not None
        counts[job.batch][job.state] += 1
    by_state: list[list[object]] = [
        [count[state] for count in counts.values()] for state in FINAL_STATES
    ]
    return (list(counts), *by_state)


def _event(job: FinishedJob) -> NewEvent:
    data: outbox.Data = {"id": job.id, "model": job.model, "state": job.state.value}
    if job.failure_code is not None:
        data["code"] = job.failure_code
    return NewEvent(job.account, f"job.{job.state.value}", data)
