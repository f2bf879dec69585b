"""Steps between an engine's answer and the client's: events in, events out.

A shaper changes the content of an answer and knows nothing of connections; the writer that it hands
its events to knows nothing of their content. Shapers are put together with `Steps`: a step that
takes events out, one that joins several engine answers into one stream, and last the one that
writes the client's API.
"""

from collections.abc import Callable
from typing import Final

# With unescaped quotes, these bytes are always a key, never part of a model's text.
_REASONING: Final = b'"reasoning":'
_REASONING_CONTENT: Final = b'"reasoning_content":'


class Shaper:
    """Passes everything on as it is. A class and not a Protocol: compiled code calls it directly.

    Events come whole, one or several at a time. A shaper may return fewer than it got and hold the
    rest back; `end` returns what it still holds when the stream is complete.
    """

    def events(self, events: bytes) -> bytes:
        """Shape the next events of a stream."""
        return events

    def answer(self, answer: bytes) -> bytes:
        """Shape a whole answer; EngineFailed if it has no known shape."""
        return answer

    def end(self) -> bytes:
        """Return the events that were held back, once, at the end of a stream that is complete."""
        return b""


class Steps(Shaper):
    """Two shapers, the second on what the first returns. Either may be made of steps itself."""

    def __init__(self, first: Shaper, second: Shaper) -> None:
        self._first = first
        self._second = second

    def events(self, events: bytes) -> bytes:
        events = self._first.events(events)
        return self._second.events(events) if events else b""

    def answer(self, answer: bytes) -> bytes:
        return self._second.answer(self._first.answer(answer))

    def end(self) -> bytes:
        held = self._first.end()
        return (self._second.events(held) if held else b"") + self._second.end()


class RenamedReasoning(Shaper):
    """Renames `reasoning` to `reasoning_content`, for models whose catalogue entry says so."""

    def events(self, events: bytes) -> bytes:
        return events.replace(_REASONING, _REASONING_CONTENT)

    def answer(self, answer: bytes) -> bytes:
        return answer.replace(_REASONING, _REASONING_CONTENT)


class Joiner(Shaper):
    """Makes one stream of several engine answers: of their end marks only the last one is sent.

    `find_end` returns where in some events the one begins that ends a stream.
    """

    def __init__(self, find_end: Callable[[bytes], int]) -> None:
        self._find_end = find_end
        self._end_mark = b""

    def events(self, events: bytes) -> bytes:
        at = self._find_end(events)
        if at == len(events):
            return events
        self._end_mark = events[at:]
        return events[:at]

    def end(self) -> bytes:
        end_mark, self._end_mark = self._end_mark, b""
        return end_mark
