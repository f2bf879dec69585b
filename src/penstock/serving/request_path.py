"""Runs one request, from the moment it has been read to its last byte. Read this first.

    ingress ─► policy ─► [ admission ─► routing ─► engine ─► metering ] ─► the caller
               who may    now?          where?     run it    what it cost

Ingress has read the request and policy has granted it; what is in brackets happens here, and
nowhere else: flex work runs the same function. Each stage is a room that does not know the
others.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple, Protocol

from penstock.admission import Gate, Hold
from penstock.clock import Clock
from penstock.contracts.refusals import by_owned_limit, would_refuse
from penstock.contracts.traced_decisions import traced_log
from penstock.engine.attempt import Attempt
from penstock.engine.sink import Sink
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
    OverLimit,
    ReplicaUnreachable,
    Withheld,
)
from penstock.records.account import AccountId, Key, KeyId
from penstock.records.decision_log import DecidedRequest, DecisionLog
from penstock.records.replica import Replica, ReplicaId
from penstock.records.request import InferenceRequest, Outcome, RequestEnd
from penstock.records.tally import Tally
from penstock.records.usage import Usage
from penstock.routing import Route, Router
from penstock.serving.attempt_tracing import begin_attempt, end_attempt
from penstock.serving.ejecting import eject
from penstock.serving.fleet_clients import FleetClients
from penstock.serving.retry_budget import RetryBudget
from penstock.serving.settings import ServingSettings
from penstock.serving.tool_call_filter import ToolCallFilter
from penstock.serving.tool_call_limits import ToolCallLimits


class Meters(Protocol):
    """The seam to metering: the journal, or no metering in a benchmark that compares."""

    def open(
        self, request: InferenceRequest, end: RequestEnd, limits: tuple[int, ...]
    ) -> Tally: ...


class Reservations(Protocol):
    """The seam to limits: a gateway's leases, or none for jobs."""

    def reserve(self, request: InferenceRequest) -> Hold | None: ...

    async def lease(self, request: InferenceRequest) -> Hold: ...

    def count_refused(self, account: AccountId, key: KeyId) -> None: ...


class Stages(NamedTuple):
    """The rooms that the path joins."""

    limits: Reservations
    gate: Gate
    router: Router
    clients: FleetClients
    meters: Meters
    # Where contracts' decisions about answers are written.
    decisions: DecisionLog = DecisionLog()
    tool_calls: ToolCallLimits = ToolCallLimits()


class RequestPath:
    """Joins admission, routing, the engine and metering."""

    def __init__(self, stages: Stages, settings: ServingSettings, clock: Clock) -> None:
        self._limits = stages.limits
        self._gate = stages.gate
        self._router = stages.router
        self._clients = stages.clients
        self._meters = stages.meters
        self._decisions = stages.decisions
        self._tool_calls = stages.tool_calls
        self._monotonic = clock.monotonic
        self._settings = settings
        self._budget = RetryBudget(settings)

    def count_refused(self, key: Key) -> None:
        """Count an invalid request of this key as a request against its limits."""
        if key.account is not None:
            self._limits.count_refused(key.account.id, key.id)

    async def reserve(self, request: InferenceRequest) -> Hold:
        """Hold the most that a request may use; raise OverLimit, or StoreUnavailable.

        `run` settles the hold. Whoever does not run the request drops it.
        """
        return self._limits.reserve(request) or await self._lease(request)

    async def run(
        self, request: InferenceRequest, sink: Sink, end: RequestEnd, hold: Hold | None = None
    ) -> None:
        """Serve the request into `sink`. Fills `end` however the request ends.

        `hold` is what was reserved for it already.
        """
        if request.decisions:
            self._log_of(end).write(DecidedRequest.of(request), request.decisions)
        # The most that the request may use is held before it waits, and settled by its real use.
        hold = hold or self._limits.reserve(request) or await self._lease(request)
        try:
            if hold.limits:
                end.standings, end.warnings = hold.standings, hold.warnings
                if end.warnings:
                    self._note_passed(request, end)
            await self._wait(request, end)
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
                # The last replica's failure is the answer: it alone shows whether anything ran.
                raise failure
            finally:
                # Its traceback holds this frame: the cycle would keep a large body until collected.
                del failure
        finally:
            requests = 1 if end.attempts else 0
            hold.settle(requests=requests, tokens=end.tokens, nanousd=end.charge_nanousd)

    async def _lease(self, request: InferenceRequest) -> Hold:
        try:
            return await self._limits.lease(request)
        except OverLimit as refused:
            by_owned_limit(refused, request.labels.contract, request.labels.workflow)
            raise

    def _log_of(self, end: RequestEnd) -> DecisionLog:
        return traced_log(self._decisions, end.trace, self._monotonic)

    def _note_passed(self, request: InferenceRequest, end: RequestEnd) -> None:
        """Log that an observed contract would have refused the request, by its own limits."""
        found = {each.kind: each for each in map(would_refuse, end.warnings) if each is not None}
        if found:
            # What only observes changes nothing, also where it cannot be logged.
            with suppress(JournalFull):
                self._log_of(end).write(DecidedRequest.of(request), tuple(found.values()))

    async def _wait(self, request: InferenceRequest, end: RequestEnd) -> None:
        """Wait until some replica that may serve the request has a free slot."""
        started = self._monotonic()
        self._budget.note_request(started)
        pool = self._router.pool(request)
        if not self._gate.has_room(pool):
            try:
                await self._gate.wait(pool, reject_if_busy=request.terms.reject_if_busy)
            finally:
                # Those that gave up, too: in a full queue they have waited longest.
                waited = self._monotonic() - started
                if waited > _REFUSED_AT_ONCE_SECONDS:
                    end.waited_seconds = waited

    def _pick(self, request: InferenceRequest, tried: list[ReplicaId]) -> Route | None:
        """Return the next replica to try; None if all were tried."""
        try:
            return self._router.pick(request, tried, self._monotonic())
        except NoReplica:
            # This request takes no slot, so the next waiting one is admitted in its place.
            self._gate.let_next(self._router.pool(request))
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
        """Try one replica; return None if it served, or a failure after which another may try."""
        pool = self._router.pool(request)
        client = self._clients.to(route.replica)
        end.replica, end.cached_expected = route.replica.id, route.expected_cached
        end.session_moved, end.cache_break = route.moved, route.cache_break
        meter = self._open_meter(request, hold, end)
        cached_estimate = route.cached_of(request.terms.prompt_tokens_estimate)
        attempt = client.attempt(request, sink, meter, cached_estimate)
        # Not a lambda: a compiled one would hold this coroutine, and with it the attempt itself.
        attempt.on_first_data = partial(self._router.first_token, route)
        if request.tool_terms is not None:
            attempt.screen = ToolCallFilter(
                request, request.tool_terms, self._log_of(end), self._tool_calls
            )
        outcome, error = _FAILED, _CRASHED
        started = self._monotonic()
        traced = None if end.trace is None else begin_attempt(request, attempt, route, end, started)
        # Before anything is awaited, so that the next routing decision counts this attempt.
        self._router.sent(route, started)
        try:
            self._gate.let_next(pool)
            await client.run(request, attempt)
            if attempt.said_error:
                # The engine sent the error to the caller itself, inside the stream.
                error = EngineFailed.code
            else:
                outcome, error = _OK, ""
        except Error as raised:
            error = raised.code
            if isinstance(raised, Withheld):
                # The engine has done its work: what it made is charged.
                outcome = _OK
            if self._may_run_elsewhere(client.replica, raised):
                return raised
            raise
        except asyncio.CancelledError:
            # Either the caller disconnected, or this process stops and aborts the request.
            outcome, error = (_LEFT, "") if sink.is_gone else _ABORTED
            raise
        finally:
            now = self._monotonic()
            is_failed = bool(error) and error in _REPLICA_FAILURES
            self._router.finished(route, _reported(attempt.usage), now, is_failed=is_failed)
            self._gate.note_end(pool)
            self._gate.let_next(pool)
            is_left = outcome is _LEFT and attempt.was_sent
            if is_left and attempt.usage is None:
                attempt.usage = self._uncached_prompt(request, route)
            is_owed = is_left or attempt.first_data_at is not None
            meter.close(outcome, usage=attempt.usage, is_owed=is_owed, error=error)
            _note_end(request, attempt, started, now, end)
            end.charge_nanousd += meter.charge_nanousd
            end.outcome, end.error_code = outcome, error
            if traced is not None:
                end_attempt(traced, attempt, outcome, error, now)
        return None

    def _uncached_prompt(self, request: InferenceRequest, route: Route) -> Usage:
        """Return the estimated usage of a request whose caller left before the first token.

        The engine has worked on the prompt, so the request must count against the caller's limits.
        """
        tokens = self._router.uncached_of(route, request.terms.prompt_tokens_estimate)
        return Usage(tokens, 0, is_estimated=True)

    def _open_meter(self, request: InferenceRequest, hold: Hold, end: RequestEnd) -> Tally:
        """Journal the attempt before it is sent to the engine; JournalFull ends the request."""
        try:
            meter = self._meters.open(request, end, hold.limits)
        except JournalFull:
            self._gate.let_next(self._router.pool(request))
            raise
        end.attempts += 1
        return meter

    def _may_run_elsewhere(self, replica: Replica, error: Error) -> bool:
        if isinstance(error, OutOfCapacity):
            return True
        if not isinstance(error, (ReplicaUnreachable, EngineLost, DeadlinePassed)):
            return False
        self._eject(replica, error)
        # After a timeout no other replica is tried: the request may be the cause. A probe finds out
        # whether the engine is.
        return not isinstance(error, DeadlinePassed)

    def _eject(self, replica: Replica, lost: Error) -> None:
        reason = repr(lost.__cause__) if lost.__cause__ else lost.message
        eject(self._router, replica, reason, self._monotonic())

    def _may_retry(self, tried: list[ReplicaId]) -> bool:
        return len(tried) <= self._settings.retries_max and self._budget.allow_retry()


# Bound once, because each use of an enum's member is a lookup in its class.
_OK: Final = Outcome.OK
_FAILED: Final = Outcome.FAILED
_LEFT: Final = Outcome.CLIENT_LEFT
_ABORTED: Final = (Outcome.INTERRUPTED, Aborted.code)
_CRASHED: Final = InternalError.code
# A full queue refuses within microseconds: that is no wait.
_REFUSED_AT_ONCE_SECONDS: Final = 0.001
# Without errors that concern the request itself, such as a prompt that is too long.
_REPLICA_FAILURES: Final = frozenset(
    failure.code for failure in (DeadlinePassed, EngineFailed, EngineLost, ReplicaUnreachable)
)


def _reported(usage: Usage | None) -> Usage | None:
    """Return usage that the engine counted; routing does not learn from estimates."""
    return None if usage is None or usage.is_estimated else usage


def _note_end(
    request: InferenceRequest, attempt: Attempt, started: float, now: float, end: RequestEnd
) -> None:
    usage = end.usage = attempt.usage
    if usage is not None:
        end.tokens += usage.prompt_tokens + usage.completion_tokens
    if attempt.first_data_at is not None:
        end.first_token_seconds = attempt.first_data_at - started
        if request.prompt.is_stream:
            end.streamed_seconds = now - attempt.first_data_at
