"""Answers on their way to the client, in the shape of the surface they came in by."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from penstock.engine.sink import Sink
from penstock.errors import Error
from penstock.ingress import error_response
from penstock.ingress.exchange import JSON, Exchange
from penstock.ingress.limit_headers import limit_headers
from penstock.ingress.route_headers import route_headers
from penstock.metering import usd_bytes
from penstock.records.price import Price, cost_nanousd
from penstock.records.request import RequestEnd
from penstock.records.usage import Usage
from penstock.wire.native_stream import native_events
from penstock.wire.workers_ai import envelope, native_json_result, native_result

if TYPE_CHECKING:
    from penstock.clock import Timer, TimerWheel


# Unescaped quotes: these bytes are a key wherever they stand, never a model's words.
_REASONING: Final = b'"reasoning":'
_REASONING_CONTENT: Final = b'"reasoning_content":'
_DONE: Final = b"data: [DONE]\n\n"
_KEEPALIVE: Final = b": keepalive\n\n"


class Shape:
    """How one caller wants its answer, beside the surface's own shape."""

    __slots__ = ("asked_at", "headers", "is_chunked", "price", "renames_reasoning", "tells_cost")

    def __init__(
        self,
        *,
        headers: bytes,
        price: Price,
        asked_at: float = 0.0,
        is_chunked: bool = True,
        renames_reasoning: bool = False,
        tells_cost: bool = False,
    ) -> None:
        self.headers = headers
        self.price = price
        self.asked_at = asked_at
        self.is_chunked = is_chunked
        self.renames_reasoning = renames_reasoning
        self.tells_cost = tells_cost


class ClientSink(Sink):
    """OpenAI's shape: bytes go through as they are."""

    __slots__ = ("_end", "_exchange", "_owed", "_shape", "keepalive")

    def __init__(self, exchange: Exchange, shape: Shape, end: RequestEnd) -> None:
        self._exchange = exchange
        self._shape = shape
        self._end = end
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
        """The header lines that every answer to this caller has."""
        return self._shape.headers

    def add_headers(self, lines: bytes) -> None:
        self._shape.headers += lines

    def when_drained(self, resume: Callable[[], None]) -> None:
        self._exchange.when_drained(resume)

    def begin(self) -> None:
        if not self._exchange.is_started:
            self._start(self._answer_lines(), b"")

    def push(self, events: bytes) -> None:
        if self.keepalive is not None:
            self.keepalive.cancel()
            self.keepalive = None
        if self._shape.renames_reasoning:
            events = events.replace(_REASONING, _REASONING_CONTENT)
        if self._shape.tells_cost:
            # The cost goes before the end mark, and is known when the request is over.
            kept = self.find_end(events)
            events, self._owed = events[:kept], self._owed or events[kept:]
        events = self.shape_events(events)
        if self._exchange.is_started:
            self._exchange.write(events)
        else:
            self._start(self._answer_lines(), events)

    def finish(self, usage: Usage | None) -> None:
        """The request is over: say what it cost, if that was asked for."""
        if self._owed:
            cost = b"" if usage is None else b": cost-usd %s\n\n" % self._cost(usage)
            self._exchange.write(cost + self._owed)
        self._exchange.end_stream()

    def failure(self, error: Error, request_id: str) -> bytes:
        """The end of a stream that has begun and cannot be completed."""
        return error_response.event(error, request_id) + _DONE

    def find_end(self, events: bytes) -> int:
        """Where in these the event is that ends a stream; their length when none does."""
        return len(events) - len(_DONE) if events.endswith(_DONE) else len(events)

    def shape(self, answer: bytes) -> bytes:
        if self._shape.renames_reasoning:
            answer = answer.replace(_REASONING, _REASONING_CONTENT)
        return self.shape_whole(answer)

    def whole(self, shaped: bytes, usage: Usage | None) -> None:
        if usage is None:
            lines = JSON + self._answer_lines()
        else:
            cost = self._cost(usage)
            lines = b"%s%sx-penstock-cost-usd: %s\r\n" % (JSON, self._answer_lines(), cost)
        self._exchange.answer(200, lines, shaped)

    def comment(self) -> None:
        """Hold the line while the engine reads a long prompt."""
        # Which replica will answer is not known yet: this one may fail, and another be tried.
        if self._exchange.is_started:
            self._exchange.write(_KEEPALIVE)
        else:
            self._start(self._headers(), _KEEPALIVE)

    def _start(self, headers: bytes, first: bytes) -> None:
        self._exchange.start_stream(headers, first, is_chunked=self._shape.is_chunked)

    def _headers(self) -> bytes:
        end = self._end
        if not end.standings and not end.warnings:
            return self._shape.headers
        now = self._shape.asked_at
        return self._shape.headers + limit_headers(end.standings, end.warnings, now)

    def _answer_lines(self) -> bytes:
        return self._headers() + route_headers(self._end)

    def _cost(self, usage: Usage) -> bytes:
        return usd_bytes(cost_nanousd(usage, self._shape.price))

    def shape_events(self, events: bytes) -> bytes:
        return events

    def shape_whole(self, answer: bytes) -> bytes:
        return answer


class HeldOpen:
    """Comments on a stream until its first event.

    Not a function inside another: one that arms itself again holds itself, and with it sink, task
    and exchange of every stream, until garbage is collected.
    """

    __slots__ = ("_seconds", "_sink", "_wheel")

    def __init__(self, sink: ClientSink, wheel: "TimerWheel", seconds: float) -> None:
        self._sink = sink
        self._wheel = wheel
        self._seconds = seconds

    def arm(self) -> None:
        self._sink.keepalive = self._wheel.after(self._seconds, self._comment)

    def _comment(self) -> None:
        if self._sink.keepalive is not None:
            self._sink.comment()
            self.arm()


class RunSink(ClientSink):
    """`/ai/run`, whose clients take `[DONE]` for a good end and know no error events."""

    __slots__ = ()

    def failure(self, error: Error, request_id: str) -> bytes:
        return error_response.event(error, request_id)


class EnvelopeSink(RunSink):
    """`/ai/run` of an OpenAI-family model: JSON in the envelope, events bare."""

    __slots__ = ()

    def shape_whole(self, answer: bytes) -> bytes:
        return envelope(answer)


class NativeSink(RunSink):
    """`/ai/run` of a native-family model."""

    __slots__ = ()

    def shape_events(self, events: bytes) -> bytes:
        return native_events(events)

    def shape_whole(self, answer: bytes) -> bytes:
        return envelope(native_result(answer))


class NativeJsonSink(NativeSink):
    """The same in JSON mode."""

    __slots__ = ()

    def shape_whole(self, answer: bytes) -> bytes:
        return envelope(native_json_result(answer))
