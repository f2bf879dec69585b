"""Answers of Responses and Messages on their way to the client, whose events have names.

They remember how the stream began and where it stands: if it breaks, its last event must fit.
"""

from typing import ClassVar, Final

from penstock.errors import Error
from penstock.ingress import error_response
from penstock.ingress.exchange import Exchange
from penstock.ingress.sinks import ClientSink, Shape
from penstock.records.request import RequestEnd
from penstock.wire.workers_ai import envelope

_END: Final = b"\n\n"


class NamedSink(ClientSink):
    """Bytes go through as they are; the first and the last of them are kept."""

    __slots__ = ("_first", "_last")

    # The first line of the event that ends a stream of this API.
    _ends: ClassVar[tuple[bytes, ...]] = ()

    def __init__(self, exchange: Exchange, shape: Shape, end: RequestEnd) -> None:
        super().__init__(exchange, shape, end)
        self._first = self._last = b""

    def find_end(self, events: bytes) -> int:
        start = events.rfind(_END, 0, -len(_END))
        # -1 when there is one event only.
        start = 0 if start < 0 else start + len(_END)
        return start if events.startswith(self._ends, start) else len(events)

    def shape_events(self, events: bytes) -> bytes:
        if events:
            self._first = self._first or events.partition(_END)[0]
            self._last = events
        return events


class ResponsesSink(NamedSink):
    """OpenAI's Responses."""

    __slots__ = ()

    _ends = (b"event: response.completed\n", b"event: response.incomplete\n")

    def failure(self, error: Error, request_id: str) -> bytes:
        return error_response.responses_event(error, request_id, self._first, self._last)


class ResponsesRunSink(ResponsesSink):
    """The same on `/ai/run`: JSON in the envelope, events bare."""

    __slots__ = ()

    def shape_whole(self, answer: bytes) -> bytes:
        return envelope(answer)


class MessagesSink(NamedSink):
    """Anthropic's Messages."""

    __slots__ = ()

    _ends = (b"event: message_stop\n",)

    def failure(self, error: Error, request_id: str) -> bytes:
        return error_response.messages_event(error, request_id)
