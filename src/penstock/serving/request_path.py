"""The path of one request, from the moment it is understood to its last byte. Read this first.

    ingress ─► policy ─► [ admission ─► routing ─► engine ] ─► the caller
               who may    now?          where?     run it

Ingress has read the request and policy has granted it; what is in brackets happens here, and
nowhere else: flex work will run the same function. Each stage is a room that does not know the
others.
"""

import logging

from penstock.admission import Gate
from penstock.clock import Clock
from penstock.engine.sink import Sink
from penstock.errors import (
    DeadlinePassed,
    EngineFailed,
    EngineLost,
    Error,
    NoReplica,
    OutOfCapacity,
    ReplicaUnreachable,
)
from penstock.records.replica import Replica, ReplicaId
from penstock.records.request import InferenceRequest, Outcome, RequestEnd
from penstock.routing import Router
from penstock.serving.fleet_clients import FleetClients
from penstock.serving.retry_budget import RetryBudget
from penstock.serving.settings import Settings

logger = logging.getLogger(__name__)


class RequestPath:
    """Admission, routing and the engine, joined."""

    def __init__(
        self, gate: Gate, router: Router, clients: FleetClients, settings: Settings, clock: Clock
    ) -> None:
        self._gate = gate
        self._router = router
        self._clients = clients
        self._clock = clock
        self._settings = settings
        self._budget = RetryBudget(settings)

    async def run(self, request: InferenceRequest, sink: Sink, end: RequestEnd) -> None:
        """Serve the request into `sink`. Facts go into `end` on every way out."""
        await self._admit(request, end)
        tried: list[ReplicaId] = []
        failure: Error | None = None
        while (replica := self._pick(request, tried)) is not None:
            failure = await self._try(replica, request, sink, end)
            if failure is None:
                return
            tried.append(replica.id)
            # Only before the first data line: afterwards the caller holds half an answer.
            if end.first_token_seconds is not None or not self._may_retry(tried):
                break
        assert failure is not None, "without a replica to try, `_pick` raises"
        try:
            # What the last one said is the answer: it alone tells whether anything ran.
            raise failure
        finally:
            # Its traceback holds this frame: the two would keep a large body until a collection.
            del failure

    async def _admit(self, request: InferenceRequest, end: RequestEnd) -> None:
        started = self._clock.monotonic()
        self._budget.note_request(started)
        if not self._gate.has_room(request.model.id):
            await self._gate.wait(request.model.id, reject_if_busy=request.reject_if_busy)
            end.waited_seconds = self._clock.monotonic() - started

    def _pick(self, request: InferenceRequest, tried: list[ReplicaId]) -> Replica | None:
        try:
            return self._router.pick(request, tried)
        except NoReplica:
            # Let in, and takes no slot: whoever waits behind must be told the same.
            self._gate.let_next(request.model.id)
            if not tried:
                raise
            return None

    async def _try(
        self, replica: Replica, request: InferenceRequest, sink: Sink, end: RequestEnd
    ) -> Error | None:
        """One try at one replica: None when it served, or the failure that lets another try."""
        end.attempts += 1
        end.replica = replica.id
        client = self._clients.to(replica)
        attempt = client.attempt(request, sink)
        started = self._clock.monotonic()
        self._router.outstanding.add(replica.id)
        self._gate.let_next(request.model.id)
        try:
            await client.run(request, attempt)
        except (ReplicaUnreachable, EngineLost) as lost:
            self._eject(replica, lost)
            return lost
        except OutOfCapacity as busy:
            return busy
        except DeadlinePassed as late:
            # Never tried elsewhere: it may be the request. A probe tells whether it is the engine.
            self._eject(replica, late)
            raise
        finally:
            self._router.outstanding.remove(replica.id)
            self._gate.let_next(request.model.id)
            end.usage = attempt.usage
            if attempt.first_data_at is not None:
                end.first_token_seconds = attempt.first_data_at - started
                if request.is_stream:
                    end.streamed_seconds = self._clock.monotonic() - attempt.first_data_at
        if attempt.said_error:
            # The engine told the caller itself, inside the stream.
            end.outcome, end.error_code = Outcome.FAILED, EngineFailed.code
        return None

    def _eject(self, replica: Replica, lost: Error) -> None:
        if self._router.ejections.eject(replica.id, self._clock.monotonic()):
            fields = {"action": "ejected", "replica": replica.id, "url": replica.url}
            reason = repr(lost.__cause__) if lost.__cause__ else lost.message
            logger.warning("replica ejected", extra={**fields, "reason": reason})

    def _may_retry(self, tried: list[ReplicaId]) -> bool:
        return len(tried) <= self._settings.retries_max and self._budget.allow_retry()
