"""Builds the writer of each answer, with the headers and the shapers that it needs."""

from penstock.clock import Clock, TimerWheel
from penstock.ingress.inference.api_shapers import shaper_for
from penstock.ingress.inference.client_writer import AnswerTerms, ClientWriter, KeepaliveTimer
from penstock.ingress.inference.composed_shaper import (
    after_composing,
    composed_shaper,
    turn_shaper,
)
from penstock.ingress.inference.contract_headers import contract_headers
from penstock.ingress.inference.cors import TRACE_HEADER, cors_lines
from penstock.ingress.inference.inference_call import InferenceCall
from penstock.ingress.inference.request_accounting import RequestAccounting
from penstock.ingress.inference.stored_writer import StoredWriter
from penstock.ingress.inference.turn_writer import TurnWriter
from penstock.ingress.inference.usage_cost import UsageCost
from penstock.ingress.settings import IngressSettings
from penstock.intake.caller_headers import CallerHeaders
from penstock.intake.opened_request import OpenedRequest
from penstock.intake.routes import Surface
from penstock.records.price import Price
from penstock.records.request import Api, InferenceRequest
from penstock.serving.shaping import RenamedReasoning, Shaper, Steps
from penstock.turns.foreground import AskedTurn


class AnswerWriters:
    """Builds writers for one worker's requests."""

    def __init__(
        self,
        accounting: RequestAccounting,
        settings: IngressSettings,
        wheel: TimerWheel,
        clock: Clock,
    ) -> None:
        self._accounting = accounting
        self._cors_origins = settings.cors_origins
        self._keepalive_seconds = settings.keepalive_seconds
        self._wheel = wheel
        self._clock = clock

    def of_request(
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

    def of_stored(
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

    def of_turn(self, call: InferenceCall, asked: AskedTurn) -> TurnWriter:
        opened, request, headers = asked.opened, asked.request, asked.headers
        assert opened.composed is not None, "what has tools is composed"
        terms = self._answer_terms(call, request, opened, headers)
        composed = turn_shaper(request, opened.composed, self._clock, asked.tools)
        price = self._price_told(call, request, headers)
        after = after_composing(price, is_run=opened.route.surface is Surface.WORKERS_RUN)
        writer = TurnWriter(call.exchange, terms, call.end, composed, after)
        if request.prompt.is_stream:
            seconds = self._keepalive_seconds
            writer.timer = KeepaliveTimer(writer, self._wheel, seconds)
        return writer

    def _answer_terms(
        self,
        call: InferenceCall,
        request: InferenceRequest,
        opened: OpenedRequest,
        headers: CallerHeaders,
    ) -> AnswerTerms:
        return AnswerTerms(
            headers=self.headers(call, opened, headers),
            price=request.terms.price,
            asked_at=request.terms.asked_at,
            is_chunked=call.exchange.speaks_chunked,
            tells_cost=request.prompt.is_stream and headers.wants_cost(),
        )

    def headers(self, call: InferenceCall, opened: OpenedRequest, headers: CallerHeaders) -> bytes:
        """Return the lines that every answer to a request has which was read."""
        own = self.request_lines(call, headers.caller_request_id())
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

    def request_lines(self, call: InferenceCall, caller_request_id: str) -> bytes:
        """Return the lines that every answer has."""
        exchange, trace = call.exchange, call.end.trace
        lines = f"x-request-id: {call.id}\r\n"
        if caller_request_id:
            lines += f"x-caller-request-id: {caller_request_id}\r\n"
        if trace is not None:
            lines += f"{TRACE_HEADER}: {trace.trace_id}\r\n"
        if exchange.target.startswith(b"/client"):
            lines += f"cf-ai-req-id: {call.id}\r\n"
        raw = lines.encode("latin-1")
        return raw + cors_lines(self._cors_origins, exchange.headers) if self._cors_origins else raw
