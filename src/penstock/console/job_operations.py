"""Operations on jobs and batches, and figures of the queues."""

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.console.operation import Nothing, Operation, OperatorQuestion
from penstock.console.rooms import OperatorRooms
from penstock.errors import NotFound
from penstock.ingress.jobs.job_answers import SeenJob, job_answer
from penstock.policy.account_names import account_names, find_account_if_given
from penstock.queue import Batch, FlexStats, JobQuery
from penstock.records.job import BatchId, JobId, JobState
from penstock.records.model import ModelId
from penstock.store import Transaction
from penstock.wire.resources.batches import batch_of
from penstock.wire.resources.jobs import JOBS_DEFAULT, JOBS_MAX, JobAnswer, read_batch, read_id


class JobNotes(msgspec.Struct, frozen=True):
    """What people are told beside a job: names of accounts, and the models that are paused."""

    account_names: dict[str, str]
    paused: list[ModelId]


class JobFilters(OperatorQuestion, frozen=True, kw_only=True):
    """Filters of a list of jobs; `after` is the last id of the page before."""

    account: str | None = None
    model: str | None = None
    state: JobState | None = None
    batch: str | None = None
    after: str | None = None
    limit: Annotated[int, Meta(ge=1, le=JOBS_MAX)] = JOBS_DEFAULT


class JobsAnswer(msgspec.Struct, frozen=True):
    """A page of jobs, newest first."""

    jobs: list[JobAnswer]
    has_more: bool
    notes: JobNotes


class JobNamed(OperatorQuestion, frozen=True, kw_only=True):
    """A job by its id, or a batch by the id that its caller knows."""

    id: str


class FoundJob(msgspec.Struct, frozen=True):
    """A job or a batch: one of the two."""

    job: JobAnswer | None
    batch: Batch | None
    notes: JobNotes


class QueuesAnswer(msgspec.Struct, frozen=True):
    """Figures of each model's queue, which `penstock control` measures every few seconds."""

    queues: dict[ModelId, FlexStats]
    paused: list[ModelId]


async def _list(rooms: OperatorRooms, asked: JobFilters) -> JobsAnswer:
    before, of_batch = read_id(asked.after, "after"), read_batch(asked.batch)
    query = JobQuery(
        account=await find_account_if_given(rooms.accounts, asked.account),
        model=None if asked.model is None else ModelId(asked.model),
        state=asked.state,
        batch=None if of_batch is None else BatchId(of_batch),
        after=None if before is None else JobId(before),
        limit=asked.limit,
    )
    jobs, has_more = await rooms.jobs.page(query)
    return JobsAnswer([job_answer(job) for job in jobs], has_more, await _notes(rooms))


async def _show(rooms: OperatorRooms, asked: JobNamed) -> FoundJob:
    return await _answer(rooms, await _find(rooms, asked.id))


async def _cancel(rooms: OperatorRooms, asked: JobNamed) -> FoundJob:
    found = await _find(rooms, asked.id)
    if isinstance(found, Batch):
        await rooms.desk.cancel_batch(None, found.id)
    else:
        await rooms.desk.cancel(None, found.job.id)
    return await _answer(rooms, await _find(rooms, asked.id))


async def _queues(rooms: OperatorRooms, _: Nothing) -> QueuesAnswer:
    async with rooms.store.transaction() as transaction:
        stats = await rooms.queue.stats(transaction)
        return QueuesAnswer(stats, await _paused(rooms, transaction))


async def _find(rooms: OperatorRooms, id: str) -> SeenJob | Batch:
    found = await rooms.jobs.find(None, JobId(id)) or await _find_batch(rooms, id)
    if found is None:
        raise NotFound(f"There is no job or batch {id}.")
    return found


async def _find_batch(rooms: OperatorRooms, id: str) -> Batch | None:
    batch = batch_of(id)
    if batch is None:
        return None
    async with rooms.store.transaction() as transaction:
        return await rooms.batches.find(transaction, None, BatchId(batch))


async def _answer(rooms: OperatorRooms, found: SeenJob | Batch) -> FoundJob:
    notes = await _notes(rooms)
    if isinstance(found, Batch):
        return FoundJob(None, found, notes)
    return FoundJob(job_answer(found.job, found), None, notes)


async def _notes(rooms: OperatorRooms) -> JobNotes:
    names = await account_names(rooms.accounts)
    async with rooms.store.transaction() as transaction:
        return JobNotes(names, await _paused(rooms, transaction))


async def _paused(rooms: OperatorRooms, transaction: Transaction) -> list[ModelId]:
    """Return the models of which no job begins."""
    controls = await rooms.queue.controls(transaction)
    return [model for model, control in controls.items() if control.is_stopped]


LIST_JOBS = Operation(
    name="list_jobs",
    summary="List jobs, newest first.",
    method="GET",
    path="/jobs",
    question=JobFilters,
    answer=JobsAnswer,
    run=_list,
)
SHOW_JOB = Operation(
    name="show_job",
    summary="Show a job or a batch.",
    method="GET",
    path="/jobs/{id}",
    question=JobNamed,
    answer=FoundJob,
    run=_show,
)
CANCEL_JOB = Operation(
    name="cancel_job",
    summary="Cancel a job or a batch: at once what waits; what runs is stopped soon.",
    method="POST",
    path="/jobs/{id}/cancel",
    question=JobNamed,
    answer=FoundJob,
    run=_cancel,
)
LIST_QUEUES = Operation(
    name="list_queues",
    summary="Show figures of each model's queue.",
    method="GET",
    path="/queues",
    question=Nothing,
    answer=QueuesAnswer,
    run=_queues,
)
JOB_OPERATIONS = (LIST_JOBS, SHOW_JOB, CANCEL_JOB, LIST_QUEUES)
