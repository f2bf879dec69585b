"""Relays vLLM's server-sent events: counts usage, and removes what the caller did not ask for.

We always ask the engine for usage in every chunk, so that a stream cut at any moment has an exact
count. What the caller did not ask for is removed again, so that the caller's stream equals, byte
for byte, what the engine would have sent for the caller's own body. All searches below look for
unescaped quotes; inside a JSON string every quote is escaped, so they cannot match a model's text.
"""

import json
import re
from typing import Final

from penstock.engine.answer_stream import AnswerStream
from penstock.engine.finish_reasons import FINISH_KEY, REASON_BYTES, read_reasons
from penstock.engine.output_estimate import OutputEstimate
from penstock.engine.whole_events import END, cut_whole
from penstock.errors import EngineFailed
from penstock.records.usage import Usage
from penstock.wire.engine_usage import read_usage, write_usage

_USAGE: Final = b',"usage":{'
_USAGE_KEY: Final = len(b',"usage":')
_NESTED_USAGE: Final = re.compile(rb',"usage":\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}')
_CHOICES: Final = b'"choices":['
# As numbers: for `bytes in bytes` Python first tries, and fails, to read the left as a number.
_CLOSED: Final = ord("]")
_LINE_END: Final = ord("\n")
_OPENING_BRACE: Final = ord("{")
_CLOSING_BRACE: Final = ord("}")
_FINISHED: Final = b'"finish_reason":"'
_FINGERPRINT_KEY: Final = b',"system_fingerprint":"'
_FINGERPRINT: Final = re.compile(rb',"system_fingerprint":"(?:[^"\\]|\\.)*"')
# Three digits: `n` is at most 128, and int() fails on thousands of them.
_INDEX: Final = re.compile(rb'"choices":\[\{"index":(\d{1,3})')
_DONE: Final = b"data: [DONE]\n\n"
_ERROR: Final = b'data: {"error":'
_CHUNK: Final = b"data: {"
# More than the ends of 128 choices are together.
_ENDS_BYTES_MAX: Final = 16 * 1024
# The end of an event whose last field is usage, from the counts on; and the end without usage.
_BEHIND_COUNTS: Final = b"}}\n\n"
_BEHIND_USAGE: Final = b"}\n\n"


_scanner = json.JSONDecoder()


def _end_of_usage(event: bytes, start: int) -> int:
    end = event.find(b"}", start) + 1
    inner = event.find(b"{", start + len(_USAGE), end)
    if inner < 0:
        return end
    # All streams end with a usage that has one nested object, vLLM's details: finding its end here
    # takes two thirds of the pattern's time.
    outer = event.find(b"}", end) + 1
    if outer and event.find(b"{", inner + 1, outer) < 0:
        return outer
    match = _NESTED_USAGE.match(event, start)
    return match.end() if match is not None else _end_of_object(event, start + _USAGE_KEY)


def _end_of_object(event: bytes, start: int) -> int:
    """Return the end of a JSON object that is nested deeper than any engine's usage is today."""
    try:
        # Latin-1 has one character for each byte, so offsets in the text are offsets in the bytes.
        _, length = _scanner.raw_decode(event[start:].decode("latin-1"))
    except (ValueError, RecursionError):
        raise EngineFailed("The engine's usage is not a JSON object.") from None
    return start + length


def _index_of_choice(event: bytes) -> int:
    match = _INDEX.search(event)
    return int(match.group(1)) if match else 0


class Fingerprint:
    """A replica's constant `system_fingerprint`, learned from its first answer."""

    def __init__(self) -> None:
        self.raw: bytes | None = None


class EventStream(AnswerStream):
    """Relays whole events of an answer fed in any pieces, without usage that was not asked for."""

    def __init__(
        self,
        *,
        wants_usage: bool,
        wants_continuous_usage: bool,
        choices: int,
        fingerprint: Fingerprint,
        event_bytes_max: int,
        estimate: OutputEstimate,
    ) -> None:
        super().__init__()
        # For an engine that reports no usage in its chunks.
        self._estimate = estimate
        self._wants_usage = wants_usage
        self._keeps_all = wants_usage and wants_continuous_usage
        self._choices = choices
        self._fingerprint = fingerprint
        self._event_bytes_max = event_bytes_max
        self._tail = b""
        self._held: list[bytes] = []
        # The last usage of the only choice, or of each of several; and the engine's final count.
        self._only: bytes | None = None
        self._by_choice: dict[int, bytes] = {}
        self._total: bytes | None = None
        # An engine writes all events of a stream alike. Of the last event: the bytes up to its
        # first choice, and the number of bytes from its usage on.
        self._before_choices = b""
        self._usage_bytes = 0
        # From the reason on, a few bytes of each choice's last chunk, where those are looked for.
        self._ends = b""

    def feed(self, data: bytes) -> bytes:
        """Return the whole events that may go to the caller now; b"" when there are none."""
        if self._tail:
            data = self._tail + data
            self._tail = b""
        if not data.endswith(END):
            data, self._tail = cut_whole(data, self._event_bytes_max)
            if not data:
                return b""
        if _LINE_END not in data[:-2]:
            return self._event(data)
        return b"".join([self._event(event + END) for event in data[:-2].split(END)])

    def usage(self) -> Usage | None:
        """Return the last counts seen: the engine's total, or a cut stream's sum over choices.

        An estimate where the engine has reported none; None before the first token.
        """
        raw = self._total or self._only
        if raw is not None:
            # Where the engine's count cannot be read, the prompt's estimate still counts.
            return read_usage(raw) or self._estimate.whole(0)
        counts = [u for raw in self._by_choice.values() if (u := read_usage(raw)) is not None]
        if not counts:
            return self._estimate.usage()
        # All choices share one prompt; its cached tokens are those of the first that has them.
        cached = next((u.cached_tokens for u in counts if u.cached_tokens is not None), None)
        completion = sum(u.completion_tokens for u in counts)
        return Usage(counts[0].prompt_tokens, completion, cached)

    def finish_reasons(self, choices: int) -> tuple[str, ...]:
        return read_reasons(self._ends, FINISH_KEY, choices)

    def latest(self) -> bytes | None:
        """Return the raw usage so far, to be charged if this process dies now."""
        raw = self._total or self._only
        if raw is not None and self._choices == 1:
            return raw
        usage = self.usage()
        return None if usage is None else write_usage(usage)

    def _event(self, event: bytes) -> bytes:
        start = self._usage_as_before(event)
        behind = _BEHIND_USAGE
        if start > 0:
            end = len(event) - len(_BEHIND_USAGE)
        else:
            # vLLM writes usage last, so that a search from the end does not read a token's text.
            start = event.rfind(_USAGE)
            if start < 0:
                return self._without_usage(event)
            end = _end_of_usage(event, start)
            if self._has_no_choices(event, start):
                return self._whole_count(event, event[start + _USAGE_KEY : end])
            self._usage_bytes = len(event) - start
            behind = event[end:]
        if self._choices == 1:
            self._only = event[start + _USAGE_KEY : end]
        else:
            self._by_choice[_index_of_choice(event)] = event[start + _USAGE_KEY : end]
        if self._keeps_all:
            return event
        return self._finish(event[:start] + behind)

    def _usage_as_before(self, event: bytes) -> int:
        """Return where the usage of this event begins if it is written like the last one's; else 0.

        A search would cost more than all other work on a token. These checks find the same: the
        bytes up to the first choice are equal, there is a choice, the usage begins at this offset,
        and no brace is in it, so that no other usage begins later and nothing is nested in it.
        """
        start = len(event) - self._usage_bytes
        before = self._before_choices
        if not before or start <= len(before) or not event.startswith(before):
            return 0
        if event[len(before)] == _CLOSED or event[start : start + len(_USAGE)] != _USAGE:
            return 0
        if not event.endswith(_BEHIND_COUNTS):
            return 0
        counts = event[start + len(_USAGE) : -len(_BEHIND_COUNTS)]
        return 0 if _OPENING_BRACE in counts or _CLOSING_BRACE in counts else start

    def _has_no_choices(self, event: bytes, end: int) -> bool:
        choices = event.find(_CHOICES, 0, end)
        if choices < 0:
            self._before_choices = b""
            return False
        self._before_choices = event[: choices + len(_CHOICES)]
        return event[choices + len(_CHOICES)] == _CLOSED

    def _without_usage(self, event: bytes) -> bytes:
        if event == _DONE:
            self.is_done = True
            return self._release() + event
        if event.startswith(_ERROR):
            self.has_error = True
            return self._release() + event
        if event.startswith(_CHUNK):
            self._estimate.add(0)
        return self._finish(event)

    def _whole_count(self, event: bytes, raw: bytes) -> bytes:
        """Handle the engine's last chunk, which has the final count and no choice."""
        self._total = raw
        if self._fingerprint.raw is None:
            match = _FINGERPRINT.search(event)
            self._fingerprint.raw = match.group() if match else b""
        return event if self._wants_usage else self._release()

    def _finish(self, event: bytes) -> bytes:
        """Stamp a choice's last chunk, as vLLM does only when no usage chunk follows."""
        if self._wants_usage:
            return event
        finished = event.find(_FINISHED)
        if finished < 0:
            if not self._held:
                return event
        elif len(self._ends) < _ENDS_BYTES_MAX:
            self._ends += event[finished : finished + len(_FINISHED) + REASON_BYTES]
        if self._fingerprint.raw is None:
            # The first stream of a replica: its fingerprint comes with the usage chunk.
            self._held.append(event)
            return b""
        return self._stamp(event)

    def _stamp(self, event: bytes) -> bytes:
        mark = self._fingerprint.raw
        if not mark or event.find(_FINISHED) < 0:
            return event
        if event.find(_FINGERPRINT_KEY) >= 0 and _FINGERPRINT.search(event):
            return event
        end = event.rfind(b"}")
        return event[:end] + mark + event[end:]

    def _release(self) -> bytes:
        held, self._held = self._held, []
        return b"".join([self._stamp(event) for event in held])
