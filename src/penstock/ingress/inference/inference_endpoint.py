"""Serves inference on all API surfaces: reads a request, runs or queues it, accounts for its end.

It does not use ASGI: it takes an `Exchange` (headers, body, and a way to write) and gives every
request an answer, a log line and a count.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from penstock.clock import Clock, TimerWheel, new_id
from penstock.errors import Aborted, Error, InternalError, OverLimit, Refused
from penstock.ingress import error_response
from penstock.ingress.http.exchange import JSON, Exchange
from penstock.ingress.http.worker_connections import WorkerConnections
from penstock.ingress.inference.api_shapers import shaper_for
from penstock.ingress.inference.async_offer import async_offer
from penstock.ingress.inference.client_writer import AnswerTerms, ClientWriter, KeepaliveTimer
from penstock.ingress.inference.composed_shaper import (
    after_composing,
    composed_shaper,
    turn_shaper,
)
from penstock.ingress.inference.contract_headers import contract_headers
from penstock.ingress.inference.cors import cors_lines
from penstock.ingress.inference.request_accounting import RequestAccounting
from penstock.ingress.inference.stored_writer import StoredWriter
from penstock.ingress.inference.turn_writer import TurnWriter
from penstock.ingress.inference.usage_cost import UsageCost
from penstock.ingress.inference.ways import FlexCaller, Ways
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import Delivery, OpenedRequest
from penstock.intake.request_reader import RequestReader
from penstock.intake.routes import RequestRoute, Surface, find_route, is_messages, surface_of
from penstock.records.price import Price, Tier
from penstock.records.prompt_chain import LINKS_MAX
from penstock.records.request import Api, InferenceRequest, Outcome, RequestEnd, RequestId
from penstock.serving.shaping import RenamedReasoning, Shaper, Steps
from penstock.turns.foreground import AskedTurn

_QUEUED: Final = (Delivery.QUEUE, Delivery.TASK)
# Bound once, because each use of an enum's member is a lookup in its class.
_NOW: Final = Tier.NOW
_FLEX: Final = Tier.FLEX
_CLIENT_LEFT: Final = Outcome.CLIENT_LEFT
_FAILED: Final = Outcome.FAILED
_OVER_LIMIT_STATUS: Final = OverLimit.status

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from penstock.records.account import Key
    from penstock.records.usage import Usage

logger = logging.getLogger(__name__)


class InferenceCall:
    """One request while it is served; its fields are set as they become known."""

    def __init__(self, exchange: Exchange, started: float) -> None:
        self.id = RequestId(new_id())
        self.exchange = exchange
        self.started = started
        self.key: Key | None = None
        self.end = RequestEnd()
        self.request: InferenceRequest | None = None
        self.writer: ClientWriter | None = None


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
        self._stored = ways.stored
        self._flex = ways.flex
        self._queue = ways.queue
        self._background = ways.background
        self._accounting = accounting
        self._clock = clock
        self._monotonic = clock.monotonic
        self._cors_origins = settings.cors_origins

    async def serve(self, exchange: Exchange) -> None:
        """Serve one request until it is answered, has failed or was cancelled."""
        call = InferenceCall(exchange, self._monotonic())
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
            call.request = request
            self._accounting.begin(request)
            writer = call.writer = self._writer(call, request, opened, headers)
            is_long = len(request.prompt.chain.links) >= LINKS_MAX
            if delivery is None and not request.prompt.is_stream and not is_long:
                await self._path.run(request, writer, call.end)
            else:
                caller = FlexCaller(opened, headers, exchange, writer)
                await self._run(call.end, request, writer, caller)
        except Error as error:
            self._fail(call, error)
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

    def _account_for_end(self, call: InferenceCall) -> None:
        """Write the request's log line, and add it to the counters."""
        exchange, end = call.exchange, call.end
        self.drop_body(exchange)
        end.total_seconds = self._monotonic() - call.started
        end.status = exchange.status
        self._accounting.finish(call.id, exchange.target, call.request, end)
        if not end.attempts and end.outcome is _FAILED:
            self._accounting.count_refusal(call.key, end)

    async def _serve_otherwise(
        self, call: InferenceCall, opened: OpenedRequest, headers: CallerHeaders
    ) -> None:
        """Serve a request whose prompt is not read yet: with stored state, or by the queue."""
        if opened.state is None:
            await self._enqueue(call, opened, headers)
            return
        turn, request = await self._stored.begin(call.id, opened, headers)
        if turn.is_background:
            own = self._answer_headers(call, turn.opened, headers)
            await self._background.submit(turn, request, call.exchange, own)
            return
        call.request = request
        self._accounting.begin(request)
        running: Coroutine[Any, Any, Usage | None]
        if turn.tools is not None:
            asked = AskedTurn(turn.opened, turn.tools, request, headers)
            turns = self._turn_writer(call, asked)
            writer: ClientWriter = turns
            running = self._stored.run_with_tools(turn, asked, turns, call.end)
        elif turn.keeps:
            stored = self._stored_writer(call, request, turn.opened, headers)
            writer = stored
            running = self._stored.run(turn, request, stored, call.end)
        else:
            writer = self._writer(call, request, turn.opened, headers)
            running = self._path.run(request, writer, call.end)
        call.writer = writer
        await self._with_keepalive(running, request, writer)
        if turn.keeps or turn.tools is not None or request.prompt.is_stream:
            writer.finish(call.end.usage)

    async def _enqueue(
        self, call: InferenceCall, opened: OpenedRequest, headers: CallerHeaders
    ) -> None:
        answer = await self._queue.serve(call.id, opened, headers)
        own = self._answer_headers(call, opened, headers)
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

    def _writer(
        self,
        call: InferenceCall,
        request: InferenceRequest,
        opened: OpenedRequest,
        headers: CallerHeaders,
    ) -> ClientWriter:
        terms = self._answer_terms(call, request, opened, headers)
        is_run = opened.route.surface is Surface.WORKERS_RUN
        price = self._price_told(call, request, headers)
        if opened.composed is not None:
            composed = composed_shaper(request, opened.composed, self._clock)
            steps = Steps(composed, after_composing(price, is_run=is_run))
            return ClientWriter(call.exchange, terms, call.end, composed, steps)
        api = shaper_for(request, is_run=is_run)
        shaper: Shaper = api
        if request.api is Api.CHAT and request.model.reasoning_field == "reasoning_content":
            shaper = Steps(RenamedReasoning(), api)
        if price is not None:
            shaper = Steps(UsageCost(request.api, price), shaper)
        return ClientWriter(call.exchange, terms, call.end, api, shaper)

    def _stored_writer(
        self,
        call: InferenceCall,
        request: InferenceRequest,
        opened: OpenedRequest,
        headers: CallerHeaders,
    ) -> StoredWriter:
        assert opened.composed is not None, "what is stored is composed"
        terms = self._answer_terms(call, request, opened, headers)
        composed = composed_shaper(request, opened.composed, self._clock)
        price = self._price_told(call, request, headers)
        after = after_composing(price, is_run=opened.route.surface is Surface.WORKERS_RUN)
        return StoredWriter(call.exchange, terms, call.end, composed, after)

    def _turn_writer(self, call: InferenceCall, asked: AskedTurn) -> TurnWriter:
        opened, request, headers = asked.opened, asked.request, asked.headers
        assert opened.composed is not None, "what has tools is composed"
        terms = self._answer_terms(call, request, opened, headers)
        composed = turn_shaper(request, opened.composed, self._clock, asked.tools)
        price = self._price_told(call, request, headers)
        after = after_composing(price, is_run=opened.route.surface is Surface.WORKERS_RUN)
        writer = TurnWriter(call.exchange, terms, call.end, composed, after)
        if request.prompt.is_stream:
            seconds = self.settings.keepalive_seconds
            writer.timer = KeepaliveTimer(writer, self.wheel, seconds)
        return writer

    def _answer_terms(
        self,
        call: InferenceCall,
        request: InferenceRequest,
        opened: OpenedRequest,
        headers: CallerHeaders,
    ) -> AnswerTerms:
        return AnswerTerms(
            headers=self._answer_headers(call, opened, headers),
            price=request.terms.price,
            asked_at=request.terms.asked_at,
            is_chunked=call.exchange.speaks_chunked,
            tells_cost=request.prompt.is_stream and headers.wants_cost(),
        )

    def _answer_headers(
        self, call: InferenceCall, opened: OpenedRequest, headers: CallerHeaders
    ) -> bytes:
        """Return the lines that every answer to a request has which was read."""
        own = self._headers(call.id, call.exchange, headers.caller_request_id())
        if opened.contract is None:
            return own
        self._accounting.count_contract(opened.contract)
        return own + contract_headers(opened.contract)

    def _price_told(
        self, call: InferenceCall, request: InferenceRequest, headers: CallerHeaders
    ) -> Price | None:
        """Return the price for `usage.cost`; None if neither caller nor account wants that."""
        account = None if call.key is None else call.key.account
        is_told = headers.wants_usage_cost() or (account is not None and account.has_usage_cost)
        return request.terms.price if is_told else None

    async def _run(
        self, end: RequestEnd, request: InferenceRequest, writer: ClientWriter, caller: FlexCaller
    ) -> None:
        """Run a request that is streamed, is flex work, or has very many messages."""
        if len(request.prompt.chain.links) >= LINKS_MAX:
            # Reading so many took long, and routing them will: let other tasks run in between.
            await asyncio.sleep(0)
        running: Coroutine[Any, Any, Usage | None]
        delivery = caller.opened.delivery
        if delivery is None:
            running = self._path.run(request, writer, end)
        elif delivery is Delivery.PREFER:
            await self._flex.prefer(request, caller)
            return
        else:
            running = self._flex.in_place(request, caller)
        usage_of_job = await self._with_keepalive(running, request, writer)
        if request.prompt.is_stream:
            writer.finish(usage_of_job or end.usage)

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
        call.end.outcome = _FAILED
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
        lines = self._headers(request_id, exchange, caller_id) + lines
        if is_messages(exchange.target):
            body = error_response.messages_body(error, request_id)
            exchange.answer(error.status, JSON + lines, body)
            return
        is_workers_ai = surface_of(exchange.target) is not Surface.OPENAI
        status, _ = error_response.status_and_number(error, is_workers_ai=is_workers_ai)
        offer = async_offer(error, call.request, exchange.target) if self.settings.flex else UNSET
        body = error_response.body(error, request_id, is_workers_ai=is_workers_ai, offer=offer)
        exchange.answer(status, JSON + lines, body)

    def _headers(self, request_id: str, exchange: Exchange, caller_request_id: str) -> bytes:
        lines = f"x-request-id: {request_id}\r\n"
        if caller_request_id:
            lines += f"x-caller-request-id: {caller_request_id}\r\n"
        if exchange.target.startswith(b"/client"):
            lines += f"cf-ai-req-id: {request_id}\r\n"
        raw = lines.encode("latin-1")
        return raw + cors_lines(self._cors_origins, exchange.headers) if self._cors_origins else raw


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
