"""Runs one claimed job down the path, as if it were a request that somebody waits for.

What is asked of it at submission is not asked again, but for who pays: a key that was revoked or an
account that was blocked since fails the job by that name.
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
    """The port that the desk satisfies."""

    async def payload_of(self, job: ClaimedJob) -> bytes: ...


class Runner:
    """`engine_priority` is how far jobs stand behind what is wanted now, inside the engine."""

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
        """To its answer. Raises the error it ended with; cancelling stops the engine."""
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
        # A key that was made a moment ago may not be known here yet: it was good at submission.
        key = self._keys.find_by_id(job.key)
        if key is not None:
            authorize(key, model, "", None)

    def _place(self, request: InferenceRequest, job: PulledJob, replica: Replica) -> None:
        """At the replica that it was claimed for, behind all that is wanted now.

        A job of the reserved share stands beside that: behind an endless row of live requests it
        would never come to its turn inside the engine.
        """
        priority = 0
        if replica.has_priority and not job.is_reserved:
            priority = self._engine_priority + job.claimed.priority
        request.placement.only_replica, request.placement.engine_priority = replica.id, priority
