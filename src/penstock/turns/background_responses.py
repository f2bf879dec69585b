"""Responses that run as jobs: queued in one transaction with it, ended in the one that ends it.

So gateways may die meanwhile: keepers run the job, and any gateway finds the response. The
response has the job's id.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from penstock.clock import Clock
from penstock.errors import ContentUnreadable, EngineFailed, InternalError, NotFound, Refused
from penstock.jobs.job_requests import new_job
from penstock.jobs.submission import JobDesk
from penstock.queue import Submitted, outbox
from penstock.queue.after_job_end import FinishedJob
from penstock.queue.outbox import NewEvent
from penstock.records.account import AccountId
from penstock.records.job import ClaimedJob, Door, Job, JobFailure, JobId, JobState, Submission
from penstock.records.request import InferenceRequest
from penstock.sessions import CONTINUED, NewResponse, ResponseEnding, ResponseId, SessionBooks
from penstock.sessions.conversation_book import NewItems
from penstock.sessions.response_ids import shown
from penstock.sessions.tenure import Tenure
from penstock.store import Transaction
from penstock.wire.apis.chat_to_response import ResponseComposer

_UNREADABLE: Final = JobFailure(
    InternalError.code, "What was stored of this response cannot be read."
)
_NO_ENDINGS: Final[Mapping[JobId, "PreparedEnding"]] = {}


class PreparedEnding(msgspec.Struct, frozen=True):
    """The end of a background response, encrypted and uploaded; no row has it yet."""

    account: AccountId
    ending: ResponseEnding
    # What its conversation gets of it.
    tenure: Tenure | None = None
    groups: list[NewItems] = []


class ResponseJob(msgspec.Struct, frozen=True):
    """How the job of a background response ended."""

    id: JobId
    account: AccountId
    state: JobState
    failure: JobFailure | None = None


class BackgroundResponses:
    """Queues and ends background responses. It is the owner of their jobs."""

    def __init__(self, books: SessionBooks, clock: Clock) -> None:
        self._books = books
        self._now = clock.now

    async def submit(
        self,
        desk: JobDesk,
        submission: Submission,
        request: InferenceRequest,
        new: NewResponse,
        idempotency_key: str | None,
    ) -> ResponseId:
        """Store a response and submit its job, both or neither.

        Return the response's id, or that of the earlier one for a known idempotency key.
        """
        prepared = await self._books.responses.prepare(new)
        job = new_job(request, idempotency_key=idempotency_key)

        async def insert(tx: Transaction, submitted: Submitted) -> None:
            if job.id in submitted.new:
                await self._books.responses.insert(tx, prepared)
                if new.tenure is not None:
                    await self._books.tenures.hand_over(tx, new.tenure)

        try:
            submitted = await desk.submit(submission, [job], beside=insert)
        except Refused:
            await self._books.responses.discard(prepared)
            raise
        if job.id not in submitted.new:
            await self._books.responses.discard(prepared)
        elif new.tenure is not None:
            self._books.tenures.drop(new.tenure)
        return ResponseId(submitted.ids[0])

    async def prepare(self, job: ClaimedJob | Job, result: bytes) -> PreparedEnding | None:
        """Compose the response of an answered job; None if it is gone or cannot be read."""
        id, books = ResponseId(job.id), self._books
        try:
            stored = await books.responses.find(job.account, id, at_any_age=True)
        except (NotFound, ContentUnreadable):
            return None
        response = {**stored.response, "status": "in_progress", "error": None}
        composer = ResponseComposer(response, self._now)
        try:
            composer.answer(result)
        except EngineFailed as failure:
            composer.stop("failed", failure.code, failure.message)
        ending = await books.responses.prepare_end(job.account, id, response)
        if stored.tenure is None or response["status"] not in CONTINUED:
            return PreparedEnding(job.account, ending, stored.tenure)
        groups = [
            await books.conversations.prepare(job.account, stored.tenure.conversation, items)
            for items in (stored.input, response["output"])
        ]
        return PreparedEnding(job.account, ending, stored.tenure, groups)

    async def ended(
        self,
        transaction: Transaction,
        jobs: Sequence[FinishedJob],
        endings: Mapping[JobId, PreparedEnding] = _NO_ENDINGS,
    ) -> None:
        """End the responses of ended jobs, in the transaction that ended these."""
        # In one order everywhere, because two of one account may change the same row of its quota.
        for job in sorted(jobs, key=lambda job: (job.account, job.id[-1], job.id)):
            if job.door is Door.RESPONSES:
                failure = None
                if job.failure_code is not None:
                    failure = JobFailure(job.failure_code, job.failure_message or "")
                ended = ResponseJob(job.id, job.account, job.state, failure)
                await self.end(transaction, ended, endings.get(job.id))

    async def end(self, tx: Transaction, job: ResponseJob, prepared: PreparedEnding | None) -> None:
        """End one response; nothing happens if it has ended already, or is deleted."""
        id = ResponseId(job.id)
        if job.state is JobState.SUCCEEDED and prepared is not None:
            await self._complete(tx, prepared)
        elif job.state is JobState.SUCCEEDED:
            await self._end_early(tx, job.account, id, "failed", _UNREADABLE)
        elif job.state is JobState.CANCELLED:
            await self._end_early(tx, job.account, id, "cancelled", None)
        else:
            await self._end_early(tx, job.account, id, "failed", job.failure)

    async def stopping(self, transaction: Transaction, job: Job) -> None:
        """Cancel the response of a job that runs: the job can only end as cancelled now."""
        if job.door is Door.RESPONSES:
            await self._end_early(transaction, job.account, ResponseId(job.id), "cancelled", None)

    async def _complete(self, tx: Transaction, prepared: PreparedEnding) -> None:
        ending = prepared.ending
        if not await self._books.responses.end(tx, ending):
            return
        if prepared.groups and prepared.tenure is not None:
            await self._books.tenures.append(tx, prepared.tenure, prepared.account, prepared.groups)
        elif prepared.tenure is not None:
            await self._books.tenures.release_in(tx, prepared.tenure)
        await _publish(tx, prepared.account, ending.id, ending.status)

    async def _end_early(
        self,
        tx: Transaction,
        account: AccountId,
        id: ResponseId,
        status: str,
        failure: JobFailure | None,
    ) -> None:
        error = None
        if failure is not None:
            error = {"code": failure.code, "message": failure.message}
        is_ended, tenure = await self._books.responses.stop(tx, id, status, error)
        if tenure is not None:
            await self._books.tenures.release_in(tx, tenure)
        if is_ended:
            await _publish(tx, account, id, status)


async def _publish(tx: Transaction, account: AccountId, id: ResponseId, status: str) -> None:
    await outbox.add(tx, [NewEvent(account, f"response.{status}", {"id": shown(id)})])
