"""Writes one answer to its client: head, events, keepalive comments, cost, end.

The shaper decides what the events contain. Several engine answers may go through one writer: they
are one stream to the client, which ends with `finish`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.engine.sink import Sink
from penstock.errors import Error
from penstock.ingress.http.exchange import JSON, Exchange
from penstock.ingress.inference.api_shapers import ApiShaper
from penstock.ingress.inference.limit_headers import limit_headers
from penstock.ingress.inference.route_headers import route_headers
from penstock.metering import usd_bytes
from penstock.records.price import Price, cost_nanousd
from penstock.records.request import RequestEnd
from penstock.records.usage import Usage
from penstock.serving.shaping import Shaper

if TYPE_CHECKING:
    from penstock.clock import Timer, TimerWheel

_KEEPALIVE: Final = b": keepalive\n\n"


class AnswerTerms:
    """What an answer has besides its content: header lines, framing, whether it has its cost."""

    def __init__(
        self,
        *,
        headers: bytes,
        price: Price,
        asked_at: float = 0.0,
        is_chunked: bool = True,
        tells_cost: bool = False,
    ) -> None:
        self.headers = headers
        self.price = price
        self.asked_at = asked_at
        self.is_chunked = is_chunked
        self.tells_cost = tells_cost


class ClientWriter(Sink):
    """Sink that writes an answer to a waiting client.

    `api` is the shaper of the client's API; `shaper` is the whole chain, if it has other steps.
    """

    def __init__(
        self,
        exchange: Exchange,
        terms: AnswerTerms,
        end: RequestEnd,
        api: ApiShaper,
        shaper: Shaper | None = None,
    ) -> None:
        self._exchange = exchange
        self._terms = terms
        self._end = end
        self._api = api
        self._shaper: Shaper = api if shaper is None else shaper
        # The event that ends the stream, held back so that the cost can go before it.
        self._owed = b""
        self.keepalive: Timer | None = None

    @property
    def is_full(self) -> bool:
        return self._exchange.is_full

    @property
    def is_gone(self) -> bool:
        return self._exchange.disconnected

    @property
    def headers(self) -> bytes:
        """The header lines that every answer to this request has."""
        return self._terms.headers

    def add_headers(self, lines: bytes) -> None:
        self._terms.headers += lines

    def when_drained(self, resume: Callable[[], None]) -> None:
        self._exchange.when_drained(resume)

    def begin(self) -> None:
        if not self._exchange.is_started:
            self._start(self._answer_lines(), b"")

    def push(self, events: bytes) -> None:
        if self.keepalive is not None:
            self.keepalive.cancel()
            self.keepalive = None
        self._write(self._shaper.events(events))

    def shape(self, answer: bytes) -> bytes:
        return self._shaper.answer(answer)

    def whole(self, shaped: bytes, usage: Usage | None) -> None:
        if usage is None:
            lines = JSON + self._answer_lines()
        else:
            cost = self._cost(usage)
            lines = b"%s%sx-penstock-cost-usd: %s\r\n" % (JSON, self._answer_lines(), cost)
        self._exchange.answer(200, lines, shaped)

    def comment(self) -> None:
        """Keep the connection alive while the engine reads a long prompt, or events are held."""
        # No route headers yet: this replica may fail, and another may answer.
        if self._exchange.is_started:
            self._exchange.write(_KEEPALIVE)
        else:
            self._start(self._headers(), _KEEPALIVE)

    def finish(self, usage: Usage | None) -> None:
        """End a stream that is complete, with its cost if the client asked for that."""
        held = self._shaper.end()
        if held:
            self._write(held)
        if self._owed:
            cost = b"" if usage is None else b": cost-usd %s\n\n" % self._cost(usage)
            self._exchange.write(cost + self._owed)
        self._exchange.end_stream()

    def fail(self, error: Error, request_id: str) -> None:
        """End a stream that has begun and cannot be completed."""
        self._exchange.write(self._api.failure(error, request_id))
        self._exchange.end_stream()

    def _write(self, events: bytes) -> None:
        if self._terms.tells_cost:
            # The cost goes before the end mark, and is known only when the request is over.
            at = self._api.find_end(events)
            events, self._owed = events[:at], self._owed or events[at:]
        if self._exchange.is_started:
            self._exchange.write(events)
        else:
            self._start(self._answer_lines(), events)

    def _start(self, headers: bytes, first: bytes) -> None:
        self._exchange.start_stream(headers, first, is_chunked=self._terms.is_chunked)

    def _headers(self) -> bytes:
        end, terms = self._end, self._terms
        if not end.standings and not end.warnings:
            return terms.headers
        return terms.headers + limit_headers(end.standings, end.warnings, terms.asked_at)

    def _answer_lines(self) -> bytes:
        return self._headers() + route_headers(self._end)

    def _cost(self, usage: Usage) -> bytes:
        return usd_bytes(cost_nanousd(usage, self._terms.price))


class KeepaliveTimer:
    """Sends comments on a stream until its first event.

    A class, because a nested function that arms itself again refers to itself: the writer, task and
    exchange of every stream would live until garbage collection.
    """

    def __init__(self, writer: ClientWriter, wheel: "TimerWheel", seconds: float) -> None:
        self._writer = writer
        self._wheel = wheel
        self._seconds = seconds

    def arm(self) -> None:
        self._writer.keepalive = self._wheel.after(self._seconds, self._comment)

    def _comment(self) -> None:
        if self._writer.keepalive is not None:
            self._writer.comment()
            self.arm()
