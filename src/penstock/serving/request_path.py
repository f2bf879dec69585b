"""The path of one request, from the moment it is understood to its last byte. Read this first.

    ingress ─► policy ─► [ admission ─► routing ─► engine ─► metering ] ─► the caller
               who may    now?          where?     run it    what it cost

Ingress has read the request and policy has granted it; what is in brackets happens here, and
nowhere else: flex work runs the same function. Each stage is a room that does not know the
others.
"""

import asyncio
from functools import partial
from typing import NamedTuple, Protocol

from penstock.admission import Gate, Hold
from penstock.clock import Clock
from penstock.engine.attempt import Attempt
from penstock.engine.replica import ReplicaClient
from penstock.engine.sink import Sink
from penstock.engine.tally import Tally
from penstock.errors import (
    Aborted,
    DeadlinePassed,
    EngineFailed,
    EngineLost,
    Error,
    InternalError,
    JournalFull,
    NoReplica,
    OutOfCapacity,
    ReplicaUnreachable,
)
from penstock.records.replica import Replica, ReplicaId
from penstock.records.request import InferenceRequest, Outcome, RequestEnd
from penstock.records.usage import Usage
from penstock.routing import Route, Router
from penstock.serving.ejecting import eject
from penstock.serving.fleet_clients import FleetClients
from penstock.serving.retry_budget import RetryBudget
from penstock.serving.settings import Settings


class AttemptMeter(Tally, Protocol):
    """One attempt's count: opened before it, closed once, however it ends."""

    charge_nanousd: int

    def close(
        self, outcome: Outcome, *, usage: Usage | None, is_delivered: bool, error: str = ""
    ) -> None: ...


class Meters(Protocol):
    """The seam to metering: the journal, or nothing at all where a benchmark compares."""

    def open(
        self, request: InferenceRequest, end: RequestEnd, limits: tuple[int, ...]
    ) -> AttemptMeter: ...


class Reservations(Protocol):
    """The seam to limits: a gateway's leases, or none where jobs run."""

    def reserve(self, request: InferenceRequest) -> Hold | None: ...

    async def lease(self, request: InferenceRequest) -> Hold: ...


class Stages(NamedTuple):
    """The rooms that the path joins."""

    limits: Reservations
    gate: Gate
    router: Router
    clients: FleetClients
    meters: Meters


class RequestPath:
    """Admission, routing, the engine and metering, joined."""

    def __init__(self, stages: Stages, settings: Settings, clock: Clock) -> None:
        self._limits = stages.limits
        self._gate = stages.gate
        self._router = stages.router
        self._clients = stages.clients
        self._meters = stages.meters
        self._clock = clock
        self._settings = settings
        self._budget = RetryBudget(settings)

    async def run(self, request: InferenceRequest, sink: Sink, end: RequestEnd) -> None:
        """Serve the request into `sink`. Facts go into `end` on every way out."""
        # What it may use at most is held before it waits, and settled with what it used.
        hold = self._limits.reserve(request) or await self._limits.lease(request)
        try:
            if hold.limits:
                end.standings, end.warnings = hold.standings, hold.warnings
            await self._admit(request, end)
            await self._serve(request, hold, sink, end)
        finally:
            if end.is_uncounted:
                hold.spend()
            else:
                hold.settle(
                    requests=min(end.attempts, 1), tokens=end.tokens, nanousd=end.charge_nanousd
                )

    async def _serve(
        self, request: InferenceRequest, hold: Hold, sink: Sink, end: RequestEnd
    ) -> None:
        tried: list[ReplicaId] = []
        failure: Error | None = None
        while (route := self._pick(request, tried)) is not None:
            failure = await self._try(route, request, hold, sink, end)
            if failure is None:
                return
            tried.append(route.replica.id)
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

    def _pick(self, request: InferenceRequest, tried: list[ReplicaId]) -> Route | None:
        try:
            return self._router.pick(request, tried, self._clock.monotonic())
        except NoReplica:
            # Let in, and takes no slot: whoever waits behind must be told the same.
            self._gate.let_next(request.model.id)
            if not tried:
                raise
            return None

    async def _try(
        self,
        route: Route,
        request: InferenceRequest,
        hold: Hold,
        sink: Sink,
        end: RequestEnd,
    ) -> Error | None:
        """One try at one replica: None when it served, or the failure that lets another try."""
        client = self._clients.to(route.replica)
        end.replica, end.cached_expected = route.replica.id, route.expected_cached
        end.session_moved, end.cache_break = route.moved, route.cache_break
        meter = self._open_meter(request, hold, end)
        attempt = client.attempt(request, sink, meter)
        started = self._clock.monotonic()
        attempt.when_first = partial(self._router.first_token, route)
        self._router.sent(route, started)
        self._gate.let_next(request.model.id)
        ending = Ending(Outcome.FAILED, InternalError.code)
        try:
            failure = await self._run(client, request, attempt)
            ending = _ending(failure, attempt)
        except Error as raised:
            ending = Ending(Outcome.FAILED, raised.code)
            raise
        except asyncio.CancelledError:
            # Either the caller went away, or this gateway stops and waits no longer.
            is_left = sink.is_gone
            ending = Ending(Outcome.CLIENT_LEFT) if is_left else Ending(*_ABORTED)
            raise
        finally:
            now = self._clock.monotonic()
            is_failed = ending.error in _REPLICA_FAILURES
            self._router.finished(route, attempt.usage, now, is_failed=is_failed)
            self._gate.note_end(request.model.id)
            self._gate.let_next(request.model.id)
            is_delivered = attempt.first_data_at is not None
            meter.close(
                ending.outcome, usage=attempt.usage, is_delivered=is_delivered, error=ending.error
            )
            self._note_end(request, attempt, started, end)
            end.charge_nanousd += meter.charge_nanousd
        end.outcome, end.error_code = ending
        return failure

    def _open_meter(self, request: InferenceRequest, hold: Hold, end: RequestEnd) -> AttemptMeter:
        """In the journal before the engine hears of it; JournalFull ends the request here."""
        try:
            meter = self._meters.open(request, end, hold.limits)
        except JournalFull:
            self._gate.let_next(request.model.id)
            raise
        end.attempts += 1
        return meter

    async def _run(
        self, client: ReplicaClient, request: InferenceRequest, attempt: Attempt
    ) -> Error | None:
        try:
            await client.run(request, attempt)
        except (ReplicaUnreachable, EngineLost) as lost:
            self._eject(client.replica, lost)
            return lost
        except OutOfCapacity as busy:
            return busy
        except DeadlinePassed as late:
            # Never tried elsewhere: it may be the request. A probe tells whether it is the engine.
            self._eject(client.replica, late)
            raise
        return None

    def _note_end(
        self, request: InferenceRequest, attempt: Attempt, started: float, end: RequestEnd
    ) -> None:
        usage = end.usage = attempt.usage
        if usage is not None:
            end.tokens += usage.prompt_tokens + usage.completion_tokens
        if attempt.first_data_at is not None:
            end.is_uncounted = usage is None
            end.first_token_seconds = attempt.first_data_at - started
            if request.is_stream:
                end.streamed_seconds = self._clock.monotonic() - attempt.first_data_at

    def _eject(self, replica: Replica, lost: Error) -> None:
        reason = repr(lost.__cause__) if lost.__cause__ else lost.message
        eject(self._router, replica, reason, self._clock.monotonic())

    def _may_retry(self, tried: list[ReplicaId]) -> bool:
        return len(tried) <= self._settings.retries_max and self._budget.allow_retry()


# Not among them: what the engine says of the request itself, such as a prompt that is too long.
_REPLICA_FAILURES = frozenset(
    failure.code for failure in (DeadlinePassed, EngineFailed, EngineLost, ReplicaUnreachable)
)
_ABORTED = (Outcome.INTERRUPTED, Aborted.code)


class Ending(NamedTuple):
    """How an attempt ended, as the ledger says it."""

    outcome: Outcome
    error: str = ""


def _ending(failure: Error | None, attempt: Attempt) -> Ending:
    if failure is not None:
        return Ending(Outcome.FAILED, failure.code)
    if attempt.said_error:
        # The engine told the caller itself, inside the stream.
        return Ending(Outcome.FAILED, EngineFailed.code)
    return Ending(Outcome.OK)
