"""Workers AI's asynchronous API: `queueRequest` and `cf-aig-async` submit, `request_id` polls.

Every submission is a batch, even of a single request; the batch's id is its `request_id`.
"""

import asyncio
import hashlib
from typing import Final
from uuid import UUID

import msgspec

from penstock.clock import Clock, new_id
from penstock.errors import BodyTooLarge, Refused
from penstock.ingress.jobs.queue_answers import STRUCTURED, QueueAnswers
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import Delivery, OpenedRequest
from penstock.intake.request_reader import RequestReader
from penstock.jobs.job_requests import new_job
from penstock.jobs.submission import JobDesk
from penstock.queue import NewBatch
from penstock.records.job import BatchId, Door, NewJob, Submission
from penstock.records.price import Tier
from penstock.records.request import InferenceRequest, RequestId
from penstock.wire.apis.queued import (
    QueuedAnswer,
    QueueInput,
    QueueItem,
    TaskAnswer,
    in_item,
    read_queue_input,
)
from penstock.wire.apis.response_format import is_structured
from penstock.wire.apis.workers_ai import envelope, task_envelope

# Reading a chat takes tens of microseconds: after this many, other tasks run.
_READ_AT_ONCE: Final = 20

_encoder = msgspec.json.Encoder()


class QueueEndpoint:
    """Takes submissions and answers polls, both by `POST …/ai/run`."""

    def __init__(
        self,
        reader: RequestReader,
        desk: JobDesk,
        answers: QueueAnswers,
        settings: IngressSettings,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._desk = desk
        self._answers = answers
        self._settings = settings
        self._now = clock.now

    async def serve(
        self, request_id: RequestId, opened: OpenedRequest, headers: CallerHeaders
    ) -> bytes:
        """Take a submission or a poll, and return the answer's body in its envelope."""
        if opened.body_bytes > self._settings.queued_bytes_max:
            raise BodyTooLarge(
                f"A queued body may have {self._settings.queued_bytes_max} bytes; "
                f"this one has {opened.body_bytes}."
            )
        read = read_queue_input(opened.fields, self._settings.queued_requests_max)
        if read.request_id is not None:
            return envelope(await self._answers.poll(opened.grant.account, read.request_id))
        batch = await self._submit(request_id, opened, headers, read)
        is_task = opened.delivery is Delivery.TASK
        answer = TaskAnswer(batch) if is_task else QueuedAnswer(batch, opened.model.id)
        return task_envelope(_encoder.encode(answer), batch)

    async def _submit(
        self, request_id: RequestId, opened: OpenedRequest, headers: CallerHeaders, read: QueueInput
    ) -> BatchId:
        batch = _batch_id(request_id, opened, headers.idempotency_key())
        has_list = "requests" in opened.fields
        jobs: list[NewJob] = []
        structured: list[str] = []
        for place, item in enumerate(read.items):
            try:
                request = await self._read(item, opened, headers)
            except Refused as wrong:
                if not has_list:
                    raise
                raise in_item(place, wrong) from None
            jobs.append(new_job(request, reference=item.reference, item=place))
            if is_structured(request.prompt.body):
                structured.append(str(place))
            if place % _READ_AT_ONCE == _READ_AT_ONCE - 1:
                await asyncio.sleep(0)
        submission = Submission(
            account=opened.grant.account,
            key=opened.grant.key,
            model=opened.model.id,
            door=Door.WORKERS_AI,
            deadline=self._now() + self._settings.job_seconds_max,
            weight=opened.account.flex_weight,
            batch=batch,
        )
        new_batch = NewBatch(
            id=batch,
            account=submission.account,
            key=submission.key,
            door=submission.door,
            deadline=submission.deadline,
            model=submission.model,
            metadata={STRUCTURED: ",".join(structured)} if structured else {},
        )
        await self._desk.submit(submission, jobs, new_batch)
        return batch

    async def _read(
        self, item: QueueItem, opened: OpenedRequest, headers: CallerHeaders
    ) -> InferenceRequest:
        own, request_id = opened.with_fields(item.fields), RequestId(new_id())
        own.contract = None if opened.contract is None else opened.contract.copied()
        return await self._reader.read_by_size(
            opened.body_bytes,
            lambda reader: reader.read_prompt(request_id, headers, own, Tier.FLEX),
        )


def _batch_id(request_id: RequestId, opened: OpenedRequest, key: str | None) -> BatchId:
    """Return the batch's id; derived from the `Idempotency-Key`, so that a repeat is the same."""
    if key is None:
        return BatchId(request_id)
    scoped = f"{opened.grant.account}\0{key}".encode()
    # Version 8 of RFC 9562: an id of a custom format.
    digest = int.from_bytes(hashlib.blake2b(scoped, digest_size=16).digest())
    marked = digest & ~(0xF << 76) & ~(0x3 << 62) | (8 << 76) | (2 << 62)
    return BatchId(str(UUID(int=marked)))
