"""Relays streams whose events have names, Responses and Messages, byte for byte.

These APIs have no `stream_options`: the engine reports usage in one of the last events. Until then
the usage is an estimate from the relayed events. An event's name is on a line of its own, and JSON
has no line breaks inside a string, so a model's text cannot be taken for a name.
"""

from typing import ClassVar, Final

from penstock.engine.answer_stream import AnswerStream
from penstock.engine.finish_reasons import STOP_KEY, read_reasons
from penstock.engine.output_estimate import OutputEstimate
from penstock.engine.whole_events import END, cut_whole, too_large
from penstock.records.usage import Usage
from penstock.wire.engine_usage import (
    characters_of_delta,
    usage_of_message_event,
    usage_of_message_start,
    usage_of_response_event,
    write_usage,
)

_COMPLETED: Final = (b"event: response.completed\n", b"event: response.incomplete\n")
_START: Final = b"event: message_start\n"
_DELTA: Final = b"event: message_delta\n"
_STOP: Final = b"event: message_stop\n"
_DATA: Final = b"\ndata:"
# The last part of the names of events that add to the answer, in both APIs.
_ADDING: Final = b"delta"
# How many events may be held back together; each repeats the caller's instructions and tools.
_OPENING_EVENTS: Final = 3


class NamedEvents(AnswerStream):
    """Relays whole events, unchanged, of an answer that is fed in any pieces."""

    # The first lines of events that the engine sends before it has read the prompt. They are held
    # back: until the model's own output comes another replica may be tried.
    _opening: ClassVar[tuple[bytes, ...]] = ()
    # The first lines of events about usage, the end and errors.
    _telling: ClassVar[tuple[bytes, ...]] = ()

    def __init__(self, event_bytes_max: int, estimate: OutputEstimate) -> None:
        super().__init__()
        self._estimate = estimate
        self._event_bytes_max = event_bytes_max
        self._tail = b""
        self._held = b""
        self._usage: Usage | None = None

    def feed(self, data: bytes) -> bytes:
        """Return the whole events that may go to the caller now; b"" when there are none."""
        if self._tail:
            data = self._tail + data
            self._tail = b""
        if data[-2:] != END:
            data, self._tail = cut_whole(data, self._event_bytes_max)
        if not data:
            return b""
        events = data[:-2].split(END)
        for event in events:
            if event.startswith(self._telling):
                self._note(event)
            elif event[: event.find(b"\n")].endswith(_ADDING):
                self._estimate.add(characters_of_delta(_data(event)))
        if events[-1].startswith(self._opening):
            self._held += data
            if len(self._held) > _OPENING_EVENTS * self._event_bytes_max:
                raise too_large()
            return b""
        if self._held:
            data, self._held = self._held + data, b""
        return data

    def usage(self) -> Usage | None:
        """Return the engine's count, or an estimate until it comes; None before the first token."""
        return self._estimate.usage() if self._usage is None else self._usage

    def latest(self) -> bytes | None:
        """Return the raw usage so far, to be charged if this process dies now."""
        usage = self.usage()
        return None if usage is None else write_usage(usage)

    def _note(self, event: bytes) -> None:
        """Read one of the `_telling` events: its usage, and whether it ends the stream."""
        raise NotImplementedError


class ResponsesEvents(NamedEvents):
    """OpenAI's Responses: the last event repeats the whole answer, and has the usage in it."""

    _opening: ClassVar = (
        b"event: response.created\n",
        b"event: response.queued\n",
        b"event: response.in_progress\n",
    )
    _telling: ClassVar = (*_COMPLETED, b"event: response.failed\n", b"event: error\n")

    def _note(self, event: bytes) -> None:
        self._usage = usage_of_response_event(_data(event))
        if event.startswith(_COMPLETED):
            self.is_done = True
        else:
            self.has_error = True


class MessagesEvents(NamedEvents):
    """Anthropic's Messages: the usage comes before the end, the prompt's tokens at the start."""

    _telling: ClassVar = (_START, _DELTA, _STOP, b"event: error\n")

    def __init__(self, event_bytes_max: int, estimate: OutputEstimate) -> None:
        super().__init__(event_bytes_max, estimate)
        # The event that has the usage, and why the model stopped.
        self._ending = b""

    def finish_reasons(self, choices: int) -> tuple[str, ...]:
        return read_reasons(self._ending, STOP_KEY, choices)

    def _note(self, event: bytes) -> None:
        if event.startswith(_START):
            prompt = usage_of_message_start(_data(event))
            if prompt is not None:
                self._estimate.take_prompt(prompt)
        elif event.startswith(_DELTA):
            self._usage = usage_of_message_event(_data(event)) or self._usage
            self._ending = event
        elif event.startswith(_STOP):
            self.is_done = True
        else:
            self.has_error = True


def _data(event: bytes) -> bytes:
    """Return the JSON of an event, which is on one line."""
    return event.partition(_DATA)[2].partition(b"\n")[0]
