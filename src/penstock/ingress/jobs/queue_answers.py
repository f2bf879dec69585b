"""Answers polls of Workers AI's asynchronous API: with the progress, or with every item's end."""

from collections.abc import AsyncIterator
from typing import Final

import msgspec
from msgspec import Raw

from penstock.catalogue import Catalogue
from penstock.errors import Error, NotFound
from penstock.ingress import error_response
from penstock.ingress.jobs.job_failure import job_error
from penstock.jobs.submission import JobDesk
from penstock.queue import Batch, Batches
from penstock.records.account import AccountId
from penstock.records.job import BatchId, Door, Job, JobState
from penstock.records.model import Family, ModelId
from penstock.store import Store
from penstock.wire.apis.queued import (
    FinalAnswer,
    ItemAnswer,
    ItemError,
    PendingAnswer,
    SummedUsage,
    TaskAnswer,
)
from penstock.wire.apis.workers_ai import native_json_result, native_result
from penstock.wire.resources.jobs import is_id

_PAGE_JOBS: Final = 50
# The metadata key that lists a batch's items in JSON mode: their answers are objects.
STRUCTURED: Final = "structured"

_encoder = msgspec.json.Encoder()


class QueueAnswers:
    """Reads an account's batches and their jobs, and renders the answers to polls."""

    def __init__(self, store: Store, batches: Batches, desk: JobDesk, catalogue: Catalogue) -> None:
        self._store = store
        self._batches = batches
        self._desk = desk
        native = (model.id for model in catalogue.models if model.family is Family.NATIVE)
        self._native: frozenset[ModelId] = frozenset(native)

    async def poll(self, account: AccountId, request_id: str) -> bytes:
        """Return the batch's status while an item is open; then all items, without `status`."""
        batch = await self._find(account, request_id)
        if batch.open_jobs:
            return _encoder.encode(PendingAnswer(batch.id, _status(batch)))
        return _encoder.encode(await self._final(batch))

    async def _final(self, batch: Batch) -> FinalAnswer:
        usage = SummedUsage()
        items: list[ItemAnswer] = []
        async for job in self._items(batch.id):
            items.append(await self._item(batch, job))
            if job.usage is not None:
                usage.prompt_tokens += job.usage.prompt_tokens
                usage.completion_tokens += job.usage.completion_tokens
        usage.total_tokens = usage.prompt_tokens + usage.completion_tokens
        return FinalAnswer(items, usage)

    async def task(self, account: AccountId, task_id: str) -> bytes:
        """Return a single request's result or raise its error; for several, return all items."""
        batch = await self._find(account, task_id)
        if batch.open_jobs:
            return _encoder.encode(TaskAnswer(batch.id, _status(batch)))
        if batch.total > 1:
            items = Raw(_encoder.encode(await self._final(batch)))
            return _encoder.encode(TaskAnswer(batch.id, JobState.SUCCEEDED, items))
        async for job in self._items(batch.id):
            error = job_error(job)
            if error is not None:
                raise error
            return _encoder.encode(TaskAnswer(batch.id, job.state, await self._result(batch, job)))
        raise NotFound(_UNKNOWN)

    async def _find(self, account: AccountId, request_id: str) -> Batch:
        batch: Batch | None = None
        if is_id(request_id):
            async with self._store.transaction() as transaction:
                batch = await self._batches.find(transaction, account, BatchId(request_id))
        if batch is None or batch.door is not Door.WORKERS_AI:
            raise NotFound(_UNKNOWN)
        return batch

    async def _items(self, batch: BatchId) -> AsyncIterator[Job]:
        """Yield a batch's jobs page by page; no transaction is open while the caller uses them."""
        after, is_more = -1, True
        while is_more:
            async with self._store.transaction() as transaction:
                jobs = await self._batches.items(transaction, batch, after, _PAGE_JOBS)
            for job in jobs:
                yield job
                after = job.item
            is_more = len(jobs) == _PAGE_JOBS

    async def _item(self, batch: Batch, job: Job) -> ItemAnswer:
        error = job_error(job)
        if error is not None:
            return _failed(job, error)
        try:
            result = await self._result(batch, job)
        except Error as unreadable:
            return _failed(job, unreadable)
        return ItemAnswer(job.item, True, job.reference, result=result)

    async def _result(self, batch: Batch, job: Job) -> Raw:
        answer = await self._desk.result_of(job)
        if job.model in self._native:
            is_structured = str(job.item) in batch.metadata.get(STRUCTURED, "").split(",")
            answer = native_json_result(answer) if is_structured else native_result(answer)
        return Raw(answer)


_UNKNOWN: Final = "There is no such request; it may have been deleted since it ended."


def _status(batch: Batch) -> str:
    has_begun = batch.running or batch.open_jobs < batch.total
    return "running" if has_begun else "queued"


def _failed(job: Job, error: Error) -> ItemAnswer:
    status, number = error_response.status_and_number(error, is_workers_ai=True)
    told = ItemError(error.message, number, status)
    return ItemAnswer(job.item, False, job.reference, error=told)
