"""Writes a batch's answers and errors into two files, in bounded memory.

A crash costs only time: the files' ids derive from the batch's id, so the worker that starts over
overwrites what was left.
"""

import hashlib
from collections.abc import AsyncIterator
from typing import Final, Protocol

import msgspec

from penstock.clock import Clock
from penstock.errors import InternalError, NotFound
from penstock.queue.batch_files import Closing, FileBatch, FileBatches, RefusedLine
from penstock.queue.batches import Batches
from penstock.queue.files import OUTPUT, LineCount, StoredFile, add_row, object_name
from penstock.queue.rows import JOB_WITH_RESULT, job_from
from penstock.records.job import Job, JobFailure, JobState
from penstock.store import Objects, Store
from penstock.wire.resources.batches import (
    AnswerLine,
    BatchStatus,
    LineError,
    LineResponse,
    answer_line,
    one_line,
)
from penstock.wire.resources.errors import OpenAIError, OpenAIErrorAnswer, openai_type

EXPIRED: Final = LineError(
    "batch_expired", "This request could not be executed before the completion window expired."
)
CANCELLED: Final = LineError(
    "batch_cancelled", "This request was not executed because the batch was cancelled."
)
_ENDED_WITHOUT_RUNNING: Final = {JobState.EXPIRED: EXPIRED, JobState.CANCELLED: CANCELLED}
_NOT_RUN: Final = {each.code: each for each in (EXPIRED, CANCELLED)}

# A page fits in memory: answers in rows are small, and larger ones are objects, read one by one.
_PAGE_JOBS: Final = 100
_PAGE: Final = f"""
select {JOB_WITH_RESULT} from jobs
where batch = %s and item > %s and (state = 'succeeded') = %s order by item limit %s
"""  # noqa: S608 - constants only


class Keeping(msgspec.Struct, frozen=True):
    """How long a worker's claim on a batch lasts, and how long its files are kept."""

    lease_seconds: float
    files_seconds: float


class Results(Protocol):
    """The port that the desk satisfies: whole answers of jobs; NotFound if one is lost."""

    async def result_of(self, job: Job) -> bytes: ...


class BatchWriter:
    """Writes one batch's files and closes it."""

    def __init__(
        self, store: Store, objects: Objects, results: Results, clock: Clock, keeping: Keeping
    ) -> None:
        self._store = store
        self._objects = objects
        self._results = results
        self._now = clock.now
        self._keeping = keeping
        self._batches = FileBatches()
        self._rows = Batches()

    async def write(self, batch: FileBatch) -> None:
        """Write the files; then, in one transaction, their rows, the batch's end and its event."""
        output = error = None
        if batch.succeeded:
            output = await self._write_file(batch, "output", self._answers(batch))
        if batch.refused or batch.jobs > batch.succeeded:
            error = await self._write_file(batch, "error", self._failures(batch))
        closing = Closing(
            await self._outcome(batch),
            output_file=output.id if output else None,
            error_file=error.id if error else None,
        )
        async with self._store.transaction() as tx:
            for file in (output, error):
                if file is not None:
                    await add_row(tx, file, is_ready=True)
            await self._batches.close(tx, batch, closing)
            await self._rows.end(tx, batch.id)

    async def _write_file(
        self, batch: FileBatch, kind: str, lines: AsyncIterator[bytes]
    ) -> StoredFile:
        id = f"file-{hashlib.sha256(f'{batch.id} {kind}'.encode()).hexdigest()[:32]}"
        name = object_name(batch.account, id)
        counted = LineCount(lines)
        size = await self._objects.put_stream(name, counted.chunks())
        now = self._now()
        return StoredFile(
            id=id,
            account=batch.account,
            purpose=OUTPUT,
            filename=f"batch_{batch.id.replace('-', '')}_{kind}.jsonl",
            object=name,
            bytes=size,
            lines=counted.lines,
            created_at=now,
            expires_at=now + (batch.output_keep_seconds or self._keeping.files_seconds),
        )

    async def _answers(self, batch: FileBatch) -> AsyncIterator[bytes]:
        async for job in self._jobs(batch, is_succeeded=True):
            yield answer_line(await self._answer(job))

    async def _failures(self, batch: FileBatch) -> AsyncIterator[bytes]:
        async for line in self._refused(batch):
            yield answer_line(_refusal(batch, line))
        async for job in self._jobs(batch, is_succeeded=False):
            yield answer_line(_failure(job))

    async def _jobs(self, batch: FileBatch, *, is_succeeded: bool) -> AsyncIterator[Job]:
        after = -1
        while True:
            async with self._store.transaction() as tx:
                await self._batches.renew(tx, batch, self._keeping.lease_seconds)
                rows = await tx.fetch(_PAGE, (batch.id, after, is_succeeded, _PAGE_JOBS))
            if not rows:
                return
            for row in rows:
                yield job_from(row)
            after = job_from(rows[-1]).item

    async def _refused(self, batch: FileBatch) -> AsyncIterator[RefusedLine]:
        after = -1
        while True:
            async with self._store.transaction() as tx:
                lines = await self._batches.refused_lines(tx, batch.id, after, _PAGE_JOBS)
            if not lines:
                return
            for line in lines:
                yield line
            after = lines[-1].item

    async def _answer(self, job: Job) -> AnswerLine:
        try:
            result = await self._results.result_of(job)
        except NotFound:
            # One missing answer must not keep the batch from ending.
            lost = InternalError("The answer is lost.")
            return _failed(job, JobFailure(lost.code, lost.message, lost.status))
        response = LineResponse(200, job.id, one_line(result))
        return AnswerLine(_line_id(job.id), job.reference, response, None)

    async def _outcome(self, batch: FileBatch) -> BatchStatus:
        if batch.is_cancelling:
            return BatchStatus.CANCELLED
        async with self._store.transaction() as tx:
            late = await tx.fetch_one(
                "select 1 from refused_lines where batch = %s and code = %s limit 1",
                (batch.id, EXPIRED.code),
            )
        return BatchStatus.EXPIRED if batch.expired or late else BatchStatus.COMPLETED


def _failure(job: Job) -> AnswerLine:
    not_run = _ENDED_WITHOUT_RUNNING.get(job.state)
    if not_run is not None:
        return AnswerLine(_line_id(job.id), job.reference, None, not_run)
    assert job.failure is not None, "a job that failed says why"
    return _failed(job, job.failure)


def _failed(job: Job, failure: JobFailure) -> AnswerLine:
    error = OpenAIError(failure.message, openai_type(failure.status), failure.code)
    response = LineResponse(failure.status, job.id, OpenAIErrorAnswer(error))
    return AnswerLine(_line_id(job.id), job.reference, response, None)


def _refusal(batch: FileBatch, line: RefusedLine) -> AnswerLine:
    id = _line_id(f"{batch.id}{line.item:08x}")
    not_run = _NOT_RUN.get(line.code)
    if not_run is not None:
        return AnswerLine(id, line.custom_id, None, not_run)
    error = OpenAIError(line.message, openai_type(line.status), line.code, line.param)
    response = LineResponse(line.status, "", OpenAIErrorAnswer(error))
    return AnswerLine(id, line.custom_id, response, None)


def _line_id(id: str) -> str:
    return f"batch_req_{id.replace('-', '')}"
