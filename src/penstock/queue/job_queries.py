"""Reads jobs: one, the ended ones, a page of them, and a job's position in its queue."""

from collections.abc import Sequence
from typing import Final, LiteralString

import msgspec

from penstock.queue.queries import read_queries
from penstock.queue.rows import JOB_FACTS, JOB_WITH_RESULT, job_from
from penstock.records.account import AccountId
from penstock.records.job import BatchId, Job, JobId, JobState
from penstock.records.model import ModelId
from penstock.store import Transaction

_QUERIES: Final = read_queries("asking.sql")
_FACTS: Final[LiteralString] = "select " + JOB_FACTS
_WHOLE: Final[LiteralString] = "select " + JOB_WITH_RESULT + "\n"


class JobQuery(msgspec.Struct, frozen=True):
    """Filters for jobs; None means any. `after` is the last id of the previous page."""

    account: AccountId | None = None
    model: ModelId | None = None
    state: JobState | None = None
    batch: BatchId | None = None
    after: JobId | None = None
    limit: int = 100


async def find(tx: Transaction, account: AccountId | None, job: JobId) -> Job | None:
    row = await tx.fetch_one(_WHOLE + _QUERIES["by_id"], (job,))
    if row is None:
        return None
    found = job_from(row)
    return found if account is None or found.account == account else None


async def ended(tx: Transaction, jobs: Sequence[JobId]) -> list[Job]:
    rows = await tx.fetch(_WHOLE + _QUERIES["ended"], (list(jobs),))
    return [job_from(row) for row in rows]


async def results_kept(tx: Transaction, jobs: Sequence[JobId]) -> dict[JobId, str]:
    rows = await tx.fetch(_QUERIES["results_kept"], (list(jobs),))
    return {JobId(id): name for id, name in rows}


async def items(tx: Transaction, batch: BatchId, after_item: int, limit: int) -> list[Job]:
    rows = await tx.fetch(_WHOLE + _QUERIES["items"], (batch, after_item, limit))
    return [job_from(row) for row in rows]


async def list_jobs(tx: Transaction, query: JobQuery, page_jobs_max: int) -> list[Job]:
    wanted: tuple[tuple[LiteralString, object], ...] = (
        (" and account = %s", query.account),
        (" and model = %s", query.model),
        (" and state = %s", query.state),
        (" and batch = %s", query.batch),
        (" and id < %s ", query.after),
    )
    asked = [(condition, value) for condition, value in wanted if value is not None]
    where = "".join(condition for condition, _ in asked)
    rows = await tx.fetch(
        _FACTS + _QUERIES["of"].rstrip() + where + "\n" + _QUERIES["page"],
        (*(value for _, value in asked), min(query.limit, page_jobs_max)),
    )
    return [job_from(row) for row in rows]


async def position(tx: Transaction, job: JobId, position_max: int) -> int | None:
    row = await tx.fetch_one(_QUERIES["position"], (job, position_max - 1))
    return None if row is None else int(row[0])
