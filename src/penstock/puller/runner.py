"""Runs one claimed job through the request path, as a live request runs.

Checks of the submission are not repeated, except for the payer: if the key was revoked or the
account blocked since, the job fails with that error.
"""

from typing import Protocol

import msgspec

from penstock.catalogue import Catalogue
from penstock.errors import InvalidRequest
from penstock.jobs.submission import to_request
from penstock.policy import KeyMirror, authorize
from penstock.puller.collecting_sink import CollectingSink
from penstock.puller.ended_job import EndedJob, Ending
from penstock.puller.pulled_job import PulledJob
from penstock.records.job import ClaimedJob
from penstock.records.model import Model
from penstock.records.replica import Replica
from penstock.records.request import InferenceRequest, RequestEnd
from penstock.serving.request_path import RequestPath
from penstock.serving.shaping import RenamedReasoning, Shaper


class Payloads(Protocol):
    """Reads jobs' payloads; the port that `JobDesk` satisfies."""

    async def payload_of(self, job: ClaimedJob) -> bytes: ...


class Runner:
    """Runs jobs. `engine_priority` is how far they rank behind live requests in the engine."""

    def __init__(
        self,
        path: RequestPath,
        payloads: Payloads,
        keys: KeyMirror,
        catalogue: Catalogue,
        engine_priority: int,
    ) -> None:
        self._path = path
        self._payloads = payloads
        self._keys = keys
        self._catalogue = catalogue
        self._engine_priority = engine_priority

    async def run(self, job: PulledJob, replica: Replica) -> EndedJob:
        """Run a job to its answer, or raise its error; cancelling stops the engine."""
        claimed = job.claimed
        model = self._catalogue.find(claimed.model)
        self._check(claimed, model)
        payload = await self._payloads.payload_of(claimed)
        salt = self._keys.salt_for(claimed.account)
        try:
            request = to_request(claimed, model, salt, payload)
        except msgspec.DecodeError as broken:
            raise InvalidRequest("The request that was stored is not JSON.") from broken
        renames = model.reasoning_field == "reasoning_content"
        sink = CollectingSink(RenamedReasoning() if renames else Shaper())
        end = RequestEnd()
        self._place(request, job, replica)
        await self._path.run(request, sink, end)
        return EndedJob(job, Ending.SUCCEEDED, answer=sink.answer, facts=end)

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
