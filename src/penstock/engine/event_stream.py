"""vLLM's server-sent events on their way through: counted, and cut to what the caller asked for.

We always ask the engine for usage in every chunk, so that a stream cut at any moment has an exact
count. What the caller did not ask for is taken out again, so that the caller's stream equals, byte
for byte, what the engine would have sent for the caller's own body. All searches below look for
unescaped quotes; inside a JSON string every quote is escaped, so they cannot match a model's words.
"""

import json
import re

from penstock.engine.whole_events import END, cut_whole
from penstock.errors import EngineFailed
from penstock.records.usage import Usage
from penstock.wire.engine_usage import read_usage, write_usage

_USAGE = b',"usage":{'
_USAGE_KEY = len(b',"usage":')
_NESTED_USAGE = re.compile(rb',"usage":\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}')
_CHOICES = b'"choices":['
_CLOSED = ord("]")
_FINISHED = b'"finish_reason":"'
_FINGERPRINT = re.compile(rb',"system_fingerprint":"(?:[^"\\]|\\.)*"')
# Three digits: `n` is at most 128, and int() fails on thousands of them.
_INDEX = re.compile(rb'"choices":\[\{"index":(\d{1,3})')
_DONE = b"data: [DONE]\n\n"
_ERROR = b'data: {"error":'


_scanner = json.JSONDecoder()


def _end_of_object(event: bytes, start: int) -> int:
    """Where a JSON object ends that is nested deeper than any engine's usage is today."""
    try:
        # One character for each byte, so that places in the text are places in the bytes.
        _, length = _scanner.raw_decode(event[start:].decode("latin-1"))
    except (ValueError, RecursionError):
        raise EngineFailed("The engine's usage is not a JSON object.") from None
    return start + length


def _has_no_choices(event: bytes, end: int) -> bool:
    choices = event.find(_CHOICES, 0, end)
    return choices >= 0 and event[choices + len(_CHOICES)] == _CLOSED


class Fingerprint:
    """A replica's constant `system_fingerprint`, learned from its first answer."""

    __slots__ = ("raw",)

    def __init__(self) -> None:
        self.raw: bytes | None = None


class EventStream:
    """Feed it the answer's bytes in any pieces; it gives back whole events, cut as asked."""

    __slots__ = (
        "_choices", "_event_bytes_max", "_fingerprint", "_held", "_keeps_all", "_tail", "_usage",
        "_wants_usage", "has_error", "is_done",
    )  # fmt: skip

    def __init__(
        self,
        *,
        wants_usage: bool,
        wants_continuous_usage: bool,
        choices: int,
        fingerprint: Fingerprint,
        event_bytes_max: int,
    ) -> None:
        self._wants_usage = wants_usage
        self._keeps_all = wants_usage and wants_continuous_usage
        self._choices = choices
        self._fingerprint = fingerprint
        self._event_bytes_max = event_bytes_max
        self._tail = b""
        self._held: list[bytes] = []
        self._usage: dict[int, bytes] = {}
        self.is_done = False
        self.has_error = False

    def feed(self, data: bytes) -> bytes:
        """Whole events that may go to the caller now; b"" when none is complete."""
        if self._tail:
            data = self._tail + data
            self._tail = b""
        if data[-2:] != END:
            data, self._tail = cut_whole(data, self._event_bytes_max)
        if not data:
            return b""
        if data.find(b"\n") == len(data) - 2:
            return self._event(data)
        return b"".join([self._event(event + END) for event in data[:-2].split(END)])

    def usage(self) -> Usage | None:
        """The last counts seen: the engine's total, or the sum over choices of a cut stream."""
        if not self._usage:
            return None
        total = self._usage.get(-1)
        if total is not None:
            return read_usage(total)
        counts = [u for raw in self._usage.values() if (u := read_usage(raw)) is not None]
        if not counts:
            return None
        # All choices share one prompt; what of it was cached, the first one that knows says.
        cached = next((u.cached_tokens for u in counts if u.cached_tokens is not None), None)
        completion = sum(u.completion_tokens for u in counts)
        return Usage(counts[0].prompt_tokens, completion, cached)

    def latest(self) -> bytes | None:
        """The raw usage of what has come so far, for whoever must know it if we die now."""
        if self._choices == 1:
            return self._usage.get(-1) or self._usage.get(0)
        usage = self.usage()
        return None if usage is None else write_usage(usage)

    def _event(self, event: bytes) -> bytes:
        # vLLM writes it last, with nothing nested behind it: so a token's text is not searched.
        start = event.rfind(_USAGE)
        if start < 0:
            return self._without_usage(event)
        end = event.find(b"}", start) + 1
        if event.find(b"{", start + len(_USAGE), end) >= 0:
            match = _NESTED_USAGE.match(event, start)
            end = match.end() if match is not None else _end_of_object(event, start + _USAGE_KEY)
        raw = event[start + _USAGE_KEY : end]
        if _has_no_choices(event, start):
            return self._total(event, raw)
        self._usage[self._index(event)] = raw
        if self._keeps_all:
            return event
        return self._finish(event[:start] + event[end:])

    def _without_usage(self, event: bytes) -> bytes:
        if event == _DONE:
            self.is_done = True
            return self._release() + event
        if event.startswith(_ERROR):
            self.has_error = True
            return self._release() + event
        return self._finish(event)

    def _total(self, event: bytes, raw: bytes) -> bytes:
        """The engine's last chunk: the whole count, and no choice."""
        self._usage[-1] = raw
        if self._fingerprint.raw is None:
            match = _FINGERPRINT.search(event)
            self._fingerprint.raw = match.group() if match else b""
        return event if self._wants_usage else self._release()

    def _finish(self, event: bytes) -> bytes:
        """vLLM puts its fingerprint on a choice's last chunk only when no usage chunk follows."""
        if self._wants_usage:
            return event
        if _FINISHED not in event and not self._held:
            return event
        if self._fingerprint.raw is None:
            # The first stream of a replica: its fingerprint comes with the usage chunk.
            self._held.append(event)
            return b""
        return self._stamp(event)

    def _stamp(self, event: bytes) -> bytes:
        mark = self._fingerprint.raw
        if not mark or _FINISHED not in event or _FINGERPRINT.search(event):
            return event
        end = event.rfind(b"}")
        return event[:end] + mark + event[end:]

    def _release(self) -> bytes:
        held, self._held = self._held, []
        return b"".join([self._stamp(event) for event in held])

    def _index(self, event: bytes) -> int:
        if self._choices == 1:
            return 0
        match = _INDEX.search(event)
        return int(match.group(1)) if match else 0
