"""Runs one claimed job through the request path, as a live request runs.

Checks of the submission are not repeated, except for the payer: if the key was revoked or the
account blocked since, the job fails with that error.
"""

from typing import NamedTuple, Protocol

import msgspec

from penstock.catalogue import Catalogue
from penstock.clock import Clock
from penstock.contracts.version_terms import VersionTerms
from penstock.errors import Error, InvalidRequest, Withheld
from penstock.jobs.job_requests import to_request
from penstock.policy import KeyMirror, authorize
from penstock.puller.collecting_sink import CollectingSink
from penstock.puller.ended_job import EndedJob, Ending
from penstock.puller.failure_verdict import as_job_failure
from penstock.puller.pulled_job import PulledJob
from penstock.records.job import ClaimedJob
from penstock.records.model import Model
from penstock.records.replica import Replica
from penstock.records.request import InferenceRequest, Outcome, RequestEnd
from penstock.serving.request_path import RequestPath
from penstock.serving.shaping import RenamedReasoning, Shaper
from penstock.telemetry.traces import Traces


class Payloads(Protocol):
    """Reads jobs' payloads; the port that `JobDesk` satisfies."""

    async def payload_of(self, job: ClaimedJob) -> bytes: ...


class JobRooms(NamedTuple):
    """The rooms that a job passes through."""

    path: RequestPath
    payloads: Payloads
    keys: KeyMirror
    catalogue: Catalogue
    contracts: VersionTerms
    # None if no job is traced.
    traces: Traces | None = None


class Runner:
    """Runs jobs. `engine_priority` is how far they rank behind live requests in the engine."""

    def __init__(self, rooms: JobRooms, engine_priority: int, clock: Clock) -> None:
        self._path = rooms.path
        self._payloads = rooms.payloads
        self._keys = rooms.keys
        self._catalogue = rooms.catalogue
        self._contracts = rooms.contracts
        self._traces = rooms.traces
        self._engine_priority = engine_priority
        self._monotonic = clock.monotonic

    async def run(self, job: PulledJob, replica: Replica) -> EndedJob:
        """Run a job to its answer, or raise its error; cancelling stops the engine."""
        claimed = job.claimed
        model = self._catalogue.find(claimed.model)
        self._check(claimed, model)
        terms = await self._contracts.find(claimed.ticket.contract)
        payload = await self._payloads.payload_of(claimed)
        salt = self._keys.salt_for(claimed.account)
        try:
            request = to_request(claimed, model, salt, payload, terms)
        except msgspec.DecodeError as broken:
            raise InvalidRequest("The request that was stored is not JSON.") from broken
        renames = model.reasoning_field == "reasoning_content"
        sink = CollectingSink(RenamedReasoning() if renames else Shaper())
        end = RequestEnd()
        self._place(request, job, replica)
        try:
            await self._run(request, sink, end)
        except Withheld as withheld:
            # It ran: the account pays for the answer that its contract keeps back.
            failure = as_job_failure(withheld)
            return EndedJob(job, Ending.FAILED, facts=end, failure=failure)
        return EndedJob(job, Ending.SUCCEEDED, answer=sink.answer, facts=end)

    async def _run(self, request: InferenceRequest, sink: CollectingSink, end: RequestEnd) -> None:
        """Run the request, and note its trace however it ends."""
        traces = self._traces
        if traces is None:
            await self._path.run(request, sink, end)
            return
        started = self._monotonic()
        end.trace = traces.begin_job(request.id, started)
        try:
            await self._path.run(request, sink, end)
        except Error as error:
            # It may have ended before any attempt, which is where the path notes errors.
            end.outcome = Outcome.OK if isinstance(error, Withheld) else Outcome.FAILED
            end.error_code = error.code
            raise
        finally:
            end.total_seconds = self._monotonic() - started
            traces.note(request.id, "", request, end, request.account)

    def _check(self, job: ClaimedJob, model: Model) -> None:
        # A key made a moment ago may not be in the mirror yet: it was valid at submission.
        key = self._keys.find_by_id(job.key)
        if key is not None:
            authorize(key, model, "", None)

    def _place(self, request: InferenceRequest, job: PulledJob, replica: Replica) -> None:
        """Place the job at the replica that it was claimed for, behind all live requests.

        A job of the reserved share ranks equal to them: behind an endless row of live requests it
        would never get its turn inside the engine.
        """
        priority = 0
        if replica.has_priority and not job.is_reserved:
            priority = self._engine_priority + job.claimed.priority
        request.placement.only_replica, request.placement.engine_priority = replica.id, priority
