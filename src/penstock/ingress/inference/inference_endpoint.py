"""Serves inference on all API surfaces: reads a request, runs or queues it, accounts for its end.

It does not use ASGI: it takes an `Exchange` (headers, body, and a way to write) and gives every
request an answer, a log line and a count.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from penstock.clock import Clock, TimerWheel
from penstock.errors import Aborted, Error, InternalError, OverLimit, Refused, Withheld
from penstock.ingress import error_response
from penstock.ingress.http.exchange import JSON, Exchange
from penstock.ingress.http.worker_connections import WorkerConnections
from penstock.ingress.inference.answer_writers import AnswerWriters
from penstock.ingress.inference.async_offer import async_offer
from penstock.ingress.inference.client_writer import ClientWriter, KeepaliveTimer
from penstock.ingress.inference.inference_call import InferenceCall
from penstock.ingress.inference.request_accounting import RequestAccounting
from penstock.ingress.inference.ways import FlexCaller, Ways
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import Delivery, OpenedRequest
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import RequestRoute, Surface, find_route, is_messages, surface_of
from penstock.records.price import Tier
from penstock.records.prompt_chain import LINKS_MAX
from penstock.records.request import InferenceRequest, Outcome, RequestId
from penstock.turns.foreground import AskedTurn

_QUEUED: Final = (Delivery.QUEUE, Delivery.TASK)
# Bound once, because each use of an enum's member is a lookup in its class.
_NOW: Final = Tier.NOW
_FLEX: Final = Tier.FLEX
_CLIENT_LEFT: Final = Outcome.CLIENT_LEFT
_FAILED: Final = Outcome.FAILED
_OK: Final = Outcome.OK
_OVER_LIMIT_STATUS: Final = OverLimit.status

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from penstock.records.account import Key
    from penstock.records.usage import Usage

logger = logging.getLogger(__name__)


class InferenceEndpoint(WorkerConnections):
    """One per worker: reads a request, runs it or queues it, and accounts for its end."""

    def __init__(
        self,
        reader: RequestReader,
        ways: Ways,
        accounting: RequestAccounting,
        settings: IngressSettings,
        wheel: TimerWheel,
        clock: Clock,
    ) -> None:
        super().__init__(settings, wheel, clock)
        self._reader = reader
        self._path = ways.now
        self._fallback = ways.fallback
        self._stored = ways.stored
        self._flex = ways.flex
        self._queue = ways.queue
        self._background = ways.background
        self._accounting = accounting
        self._traces = accounting.traces
        self._writers = AnswerWriters(accounting, settings, wheel, clock)
        self._monotonic = clock.monotonic

    async def serve(self, exchange: Exchange) -> None:
        """Serve one request until it is answered, has failed or was cancelled."""
        call = self._begin(exchange)
        try:
            route = find_route(exchange.target)
            headers = exchange.caller
            key = self._reader.find_key(headers) or await self._reader.authenticate(headers)
            call.key = key
            if exchange.body_bytes > route.inline_bytes_max:
                opened, request = await self._read_large(call, route, headers, key)
            else:
                body = exchange.take_body()
                opened, request = _read(self._reader, call.id, route, headers, key, body)
            self.body_budget.release(exchange)
            delivery = opened.delivery
            if request is None:
                await self._serve_otherwise(call, opened, headers)
                return
            if opened.unread is not None and delivery is None:
                opened, request = await self._admit(call, request, opened, headers)
            call.request = request
            self._accounting.begin(request)
            writer = call.writer = self._writers.of_request(call, request, opened, headers)
            is_long = len(request.prompt.chain.links) >= LINKS_MAX
            if delivery is None and not request.prompt.is_stream and not is_long:
                await self._path.run(request, writer, call.end, call.hold)
            else:
                caller = FlexCaller(opened, headers, exchange, writer)
                await self._run(call, request, writer, caller)
        except Error as error:
            self._fail(call, self._accounting.logged(call.id, call.key, error, call.end))
        except asyncio.CancelledError:
            if exchange.disconnected:
                call.end.outcome = _CLIENT_LEFT
            else:
                # uvicorn cancels what is still open when `drain_seconds` have passed.
                self._fail(call, Aborted())
            raise
        except Exception:
            logger.exception("request crashed", extra={"action": "crash", "request": call.id})
            self._fail(call, InternalError())
        finally:
            self._account_for_end(call)

    def _begin(self, exchange: Exchange) -> InferenceCall:
        call = InferenceCall(exchange, self._monotonic())
        if self._traces is not None:
            call.end.trace = self._traces.begin(call.id, exchange.headers, call.started)
        return call

    async def _admit(
        self,
        call: InferenceCall,
        request: InferenceRequest,
        opened: OpenedRequest,
        headers: CallerHeaders,
    ) -> tuple[OpenedRequest, InferenceRequest]:
        """Reserve the money of a request, or of the same for the cheaper model of its contract."""
        try:
            admitted = await self._fallback.admit(request, opened, headers)
        except Error:
            call.request = request
            self._accounting.begin(request)
            raise
        call.hold = admitted.hold
        return admitted.opened, admitted.request

    def _account_for_end(self, call: InferenceCall) -> None:
        """Write the request's log line, add it to the counters, and note its trace."""
        exchange, end = call.exchange, call.end
        self.drop_body(exchange)
        if call.hold is not None:
            # It is not settled if the request never ran.
            call.hold.drop()
        end.total_seconds = self._monotonic() - call.started
        end.status = exchange.status
        self._accounting.finish(call.id, exchange.target, call.request, end, call.key)
        if not end.attempts and end.outcome is _FAILED:
            self._accounting.count_refusal(call.key, end)

    async def _serve_otherwise(
        self, call: InferenceCall, opened: OpenedRequest, headers: CallerHeaders
    ) -> None:
        """Serve a request whose prompt is not read yet: with stored state, or by the queue."""
        if opened.state is None:
            await self._enqueue(call, opened, headers)
            return
        turn, request, call.hold = await self._stored.begin(call.id, opened, headers)
        if turn.is_background:
            own = self._writers.headers(call, turn.opened, headers)
            await self._background.submit(turn, request, call.exchange, own)
            return
        call.request = request
        self._accounting.begin(request)
        running: Coroutine[Any, Any, Usage | None]
        if turn.tools is not None:
            asked = AskedTurn(turn.opened, turn.tools, request, headers, call.hold)
            turns = self._writers.of_turn(call, asked)
            writer: ClientWriter = turns
            running = self._stored.run_with_tools(turn, asked, turns, call.end)
        elif turn.keeps:
            stored = self._writers.of_stored(call, request, turn.opened, headers)
            writer = stored
            running = self._stored.run(turn, request, stored, call.end, call.hold)
        else:
            writer = self._writers.of_request(call, request, turn.opened, headers)
            running = self._path.run(request, writer, call.end, call.hold)
        call.writer = writer
        await self._with_keepalive(running, request, writer)
        if turn.keeps or turn.tools is not None or request.prompt.is_stream:
            writer.finish(call.end.usage)

    async def _enqueue(
        self, call: InferenceCall, opened: OpenedRequest, headers: CallerHeaders
    ) -> None:
        answer = await self._queue.serve(call.id, opened, headers)
        own = self._writers.headers(call, opened, headers)
        call.exchange.answer(200, JSON + own, answer)

    async def _read_large(
        self, call: InferenceCall, route: RequestRoute, headers: CallerHeaders, key: "Key"
    ) -> tuple[OpenedRequest, InferenceRequest | None]:
        body_bytes, parts = call.exchange.body_bytes, call.exchange.take_parts()
        return await self._reader.read_by_size(
            body_bytes,
            lambda reader: _read(reader, call.id, route, headers, key, _joined(parts)),
            route.inline_bytes_max,
        )

    def _count_refused(self, call: InferenceCall, error: Error) -> None:
        """Count an invalid request against its key's limits; not one that a limit refused.

        Reading an invalid request costs as much as reading a valid one.
        """
        is_fault = isinstance(error, Refused) and error.status != _OVER_LIMIT_STATUS
        if is_fault and call.key is not None and not call.end.attempts:
            self._path.count_refused(call.key)

    def refuse(self, exchange: Exchange, error: Error) -> None:
        """Answer a request that could not even be read."""
        call = InferenceCall(exchange, self._monotonic())
        self._fail(call, error)
        self._account_for_end(call)

    def account_of(self, headers: CallerHeaders) -> str:
        return self._reader.find_account(headers)

    async def _run(
        self,
        call: InferenceCall,
        request: InferenceRequest,
        writer: ClientWriter,
        caller: FlexCaller,
    ) -> None:
        """Run a request that is streamed, is flex work, or has very many messages."""
        if len(request.prompt.chain.links) >= LINKS_MAX:
            # Reading so many took long, and routing them will: let other tasks run in between.
            await asyncio.sleep(0)
        running: Coroutine[Any, Any, Usage | None]
        delivery = caller.opened.delivery
        if delivery is None:
            running = self._path.run(request, writer, call.end, call.hold)
        elif delivery is Delivery.PREFER:
            await self._flex.prefer(request, caller)
            return
        else:
            running = self._flex.in_place(request, caller)
        usage_of_job = await self._with_keepalive(running, request, writer)
        if request.prompt.is_stream:
            writer.finish(usage_of_job or call.end.usage)

    async def _with_keepalive(
        self,
        running: "Coroutine[Any, Any, Usage | None]",
        request: InferenceRequest,
        writer: ClientWriter,
    ) -> "Usage | None":
        """Run a request; while nothing of its stream has come, its client gets comments."""
        if not request.prompt.is_stream:
            return await running
        KeepaliveTimer(writer, self.wheel, self.settings.keepalive_seconds).arm()
        try:
            return await running
        finally:
            if writer.keepalive is not None:
                writer.keepalive.cancel()

    def _fail(self, call: InferenceCall, error: Error) -> None:
        exchange, request_id = call.exchange, call.id
        self._count_refused(call, error)
        # What a contract withheld was served: it is counted and charged.
        call.end.outcome = _OK if isinstance(error, Withheld) else _FAILED
        call.end.error_code = error.code
        if exchange.response_complete:
            # The error came after a complete answer: nothing may be written behind that.
            return
        if exchange.is_started:
            if call.writer is not None:
                call.writer.fail(error, request_id)
            else:
                # The events of a background response, which its client can read again.
                exchange.end_stream()
            return
        lines = b"".join(b"%s: %s\r\n" % pair for pair in error_response.headers(error))
        caller_id = exchange.caller.caller_request_id()
        lines = self._writers.request_lines(call, caller_id) + lines
        if is_messages(exchange.target):
            body = error_response.messages_body(error, request_id)
            exchange.answer(error.status, JSON + lines, body)
            return
        is_workers_ai = surface_of(exchange.target) is not Surface.OPENAI
        status, _ = error_response.status_and_number(error, is_workers_ai=is_workers_ai)
        offer = async_offer(error, call.request, exchange.target) if self.settings.flex else UNSET
        body = error_response.body(error, request_id, is_workers_ai=is_workers_ai, offer=offer)
        exchange.answer(status, JSON + lines, body)


def _joined(parts: list[bytes]) -> bytes:
    """Join the parts, and drop them: they take as much memory again."""
    body = b"".join(parts)
    parts.clear()
    return body


def _read(
    reader: RequestReader,
    request_id: RequestId,
    route: RequestRoute,
    headers: CallerHeaders,
    key: "Key",
    body: bytes,
) -> tuple[OpenedRequest, InferenceRequest | None]:
    """Return the opened and the read request; the latter is None if another way reads it."""
    opened = reader.open(route, headers, key, body)
    if opened.state is not None:
        return opened, None
    delivery = opened.delivery
    if delivery is None:
        return opened, reader.read_prompt(request_id, headers, opened, _NOW)
    if delivery in _QUEUED:
        return opened, None
    return opened, reader.read_prompt(request_id, headers, opened, _FLEX)
