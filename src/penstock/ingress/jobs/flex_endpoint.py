"""Serves `service_tier: "flex"` and `Prefer: respond-async`: each request becomes one job.

A job's id is its request's id. When a caller disconnects, its job is cancelled, unless it sent an
`Idempotency-Key`, by which it may come back for the answer.
"""

import asyncio
import math
from typing import Final

import msgspec
from msgspec import Raw

from penstock.clock import Clock
from penstock.errors import EngineFailed, InternalError, Refused, StoreUnavailable
from penstock.ingress.http.exchange import JSON
from penstock.ingress.inference.client_writer import ClientWriter
from penstock.ingress.inference.ways import FlexCaller
from penstock.ingress.jobs.job_answers import JobLookup, SeenJob, job_answer
from penstock.ingress.jobs.job_failure import job_error
from penstock.ingress.jobs.job_waits import JobWaits
from penstock.ingress.settings import IngressSettings
from penstock.intake.routes import Surface
from penstock.jobs.job_requests import new_job
from penstock.jobs.submission import JobDesk
from penstock.records.job import Door, Job, JobId, Submission
from penstock.records.request import InferenceRequest
from penstock.records.usage import Usage
from penstock.wire.apis.whole_stream import whole_events
from penstock.wire.apis.workers_ai import envelope
from penstock.wire.http.prefer import Preference
from penstock.wire.json_body import Fields, write_fields

_FLEX: Final = Raw(b'"flex"')
_RETRY_AFTER_DEFAULT: Final = 5
_RETRY_AFTER_MAX: Final = 60

_fields_decoder = msgspec.json.Decoder(Fields)
_encoder = msgspec.json.Encoder()


class FlexEndpoint:
    """Submits one job and answers its caller with the result or with the job's URL."""

    def __init__(
        self,
        desk: JobDesk,
        lookup: JobLookup,
        waits: JobWaits,
        settings: IngressSettings,
        clock: Clock,
    ) -> None:
        self._desk = desk
        self._lookup = lookup
        self._waits = waits
        self._settings = settings
        self._now = clock.now

    async def in_place(self, request: InferenceRequest, caller: FlexCaller) -> Usage | None:
        """Wait for the job, answer as a live request would be answered, and return the usage."""
        may_come_back = caller.headers.idempotency_key() is not None
        job_id = JobId(request.id)
        with self._waits.place(request.account):
            try:
                job_id = await self._submit(request, caller)
                job = await self._waits.wait(job_id)
            except Refused:
                raise
            except BaseException:
                # The submission may or may not have reached Postgres; cancel in both cases.
                if not may_come_back:
                    self._waits.give_up(request.account, job_id)
                raise
        assert job is not None, "without a limit on the wait it ends with the job"
        await self._answer(job, request, caller.writer)
        return job.usage

    async def prefer(self, request: InferenceRequest, caller: FlexCaller) -> None:
        """Answer with the result if the job ends in time, else with 202 and the job's URL."""
        preference = caller.headers.preference() or Preference()
        seconds = min(preference.wait_seconds or 0, self._settings.prefer_wait_seconds_max)
        job_id = JobId(request.id)
        try:
            with self._waits.place(request.account):
                job_id = await self._submit(request, caller)
                if seconds:
                    await self._waits.wait(job_id, seconds)
            seen = await self._lookup.find(request.account, job_id)
        except StoreUnavailable:
            # The job may be queued, and the caller's retry after this error makes a second one.
            if caller.headers.idempotency_key() is None:
                self._waits.give_up(request.account, job_id)
            raise
        if seen is None:
            raise InternalError("The job that was just submitted is not there.")
        if not seen.job.state.is_final:
            _answer_later(seen, preference, caller)
            return
        if preference.wait_seconds is not None:
            caller.writer.add_headers(b"preference-applied: wait=%d\r\n" % preference.wait_seconds)
        await self._answer(seen.job, request, caller.writer)
        if request.prompt.is_stream:
            caller.writer.finish(seen.job.usage)

    async def _submit(self, request: InferenceRequest, caller: FlexCaller) -> JobId:
        """Submit the job; return its id, or the earlier job's for a known idempotency key."""
        submission = Submission(
            account=request.account,
            key=request.key,
            model=request.model.id,
            door=Door.CHAT,
            deadline=self._now() + self._settings.job_seconds_max,
            weight=caller.opened.account.flex_weight,
        )
        idempotency_key = caller.headers.idempotency_key()
        # Encoding 32 MB on the event loop would block all other requests.
        job = await asyncio.to_thread(new_job, request, idempotency_key=idempotency_key)
        submitted = await self._desk.submit(submission, [job])
        # The job has the prompt now: a caller may wait for hours, and must not hold a megabyte.
        request.prompt.body.clear()
        return submitted.ids[0]

    async def _answer(self, job: Job, request: InferenceRequest, writer: ClientWriter) -> None:
        error = job_error(job)
        if error is not None:
            raise error
        answer = _with_tier(await self._desk.result_of(job))
        if request.prompt.is_stream:
            writer.begin()
            writer.push(whole_events(answer, with_usage=request.prompt.wants_usage))
        else:
            writer.whole(writer.shape(answer), job.usage)


def _with_tier(answer: bytes) -> bytes:
    try:
        fields = _fields_decoder.decode(answer)
    except msgspec.DecodeError as bad:
        raise EngineFailed(f"The engine's answer has no known shape: {bad}") from None
    fields["service_tier"] = _FLEX
    return write_fields(fields)


def _answer_later(seen: SeenJob, preference: Preference, caller: FlexCaller) -> None:
    lines = (
        f"location: /v1/jobs/{seen.job.id}\r\n"
        f"retry-after: {_retry_after(seen.eta_seconds)}\r\n"
        f"preference-applied: {preference.applied_later}\r\n"
    )
    body = _encoder.encode(job_answer(seen.job, seen))
    if caller.opened.route.surface is Surface.WORKERS_RUN:
        body = envelope(body)
    caller.exchange.answer(202, JSON + caller.writer.headers + lines.encode(), body)


def _retry_after(eta_seconds: float | None) -> int:
    if eta_seconds is None:
        return _RETRY_AFTER_DEFAULT
    return max(1, math.ceil(min(eta_seconds, _RETRY_AFTER_MAX)))
