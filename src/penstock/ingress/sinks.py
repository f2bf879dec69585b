"""Answers on their way to the client, in the shape of the surface they came in by."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.ingress.exchange import JSON, Exchange
from penstock.wire.native_stream import native_events
from penstock.wire.workers_ai import envelope, native_json_result, native_result

if TYPE_CHECKING:
    from penstock.clock import Timer


# Unescaped quotes: these bytes are a key wherever they stand, never a model's words.
_REASONING = b'"reasoning":'
_REASONING_CONTENT = b'"reasoning_content":'


class ClientSink:
    """OpenAI's shape: bytes go through as they are."""

    __slots__ = ("_exchange", "_headers", "_is_chunked", "_renames_reasoning", "keepalive")

    def __init__(
        self,
        exchange: Exchange,
        headers: bytes,
        *,
        is_chunked: bool,
        renames_reasoning: bool = False,
    ) -> None:
        self._exchange = exchange
        self._renames_reasoning = renames_reasoning
        self._headers = headers
        self._is_chunked = is_chunked
        self.keepalive: Timer | None = None

    @property
    def is_full(self) -> bool:
        return self._exchange.is_full

    def when_drained(self, resume: Callable[[], None]) -> None:
        self._exchange.when_drained(resume)

    def begin(self) -> None:
        self._exchange.start_stream(self._headers, is_chunked=self._is_chunked)

    def push(self, events: bytes) -> None:
        if self.keepalive is not None:
            self.keepalive.cancel()
            self.keepalive = None
            self.begin()
        if self._renames_reasoning:
            events = events.replace(_REASONING, _REASONING_CONTENT)
        self._exchange.write(self.shape_events(events))

    def whole(self, answer: bytes) -> None:
        if self._renames_reasoning:
            answer = answer.replace(_REASONING, _REASONING_CONTENT)
        self._exchange.answer(200, JSON + self._headers, self.shape_whole(answer))

    def comment(self) -> None:
        """Hold the line while the engine reads a long prompt."""
        self.begin()
        self._exchange.write(b": keepalive\n\n")

    def shape_events(self, events: bytes) -> bytes:
        return events

    def shape_whole(self, answer: bytes) -> bytes:
        return answer


class EnvelopeSink(ClientSink):
    """`/ai/run` of an OpenAI-family model: JSON in the envelope, events bare."""

    __slots__ = ()

    def shape_whole(self, answer: bytes) -> bytes:
        return envelope(answer)


class NativeSink(ClientSink):
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
