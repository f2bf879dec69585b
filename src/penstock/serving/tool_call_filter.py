"""Judges the tools that an answer calls, before the client gets any of it.

Text is never held. A call's events are held until its name is whole, because clients join the
names of several pieces. Events without a call are passed on untouched: most of them after a
comparison with the last one, because an engine writes the events of a stream alike.
"""

from typing import TYPE_CHECKING, Final

from penstock.contracts.tool_verdicts import note_on
from penstock.engine.answer_screen import AnswerScreen
from penstock.engine.whole_events import END
from penstock.records.decision_log import DecisionLog
from penstock.records.request import Api, InferenceRequest
from penstock.records.tool_terms import ToolTerms
from penstock.serving.called_tools import CalledTools
from penstock.serving.tool_call_limits import ToolCallLimits
from penstock.wire.apis.call_removal import (
    CallPlaces,
    answer_without_calls,
    event_without_calls,
)
from penstock.wire.apis.text_calls import has_text_call, is_harmless, unfinished_mark
from penstock.wire.apis.tool_call_deltas import CallPiece, EventPiece, TextPiece, read_event
from penstock.wire.apis.tool_calls import AnswerCalls, read_answer

if TYPE_CHECKING:
    from mypy_extensions import i64

_CHAT: Final = Api.CHAT
_EMBEDDINGS: Final = Api.EMBEDDINGS
# The text of an event stands behind one of these keys, unless it is a call's.
_TEXT_KEYS: Final = (
    b'"content":"', b'"reasoning":"', b'"reasoning_content":"', b'"text":"', b'"thinking":"',
)  # fmt: skip
# As numbers, which compiled code compares at once. Of these the escape is the greatest.
_LINE_END: Final = 0x0A
_QUOTE: Final = 0x22
_ANGLE: Final = 0x3C
_BRACKET: Final = 0x5B
_ESCAPE: Final = 0x5C
# Up to so many bytes a loop is faster than searches.
_SHORT_BYTES: Final = 48
# The start of a list, as events have it outside of texts: `"choices":[`, `"logprobs":[`.
_LIST: Final = b's":['
# How a letter of a key or a mark may be written, and also letters such as an "e" with an accent.
_HEX_ESCAPE: Final = b"\\u00"
_DONE: Final = b"data: [DONE]"
_WRITTEN_AS_TEXT: Final = "that is written as text"


class StreamedCall:
    """One call of a stream: its name so far, and whether it was judged."""

    def __init__(self) -> None:
        self.name = ""
        self.is_judged = False
        # Its index among those that are left; None if it is taken out.
        self.place: int | None = None
        # The sentence for the client, until it is sent.
        self.note = ""


class ToolCallFilter(AnswerScreen):
    """Judges one answer by its terms."""

    def __init__(
        self,
        request: InferenceRequest,
        terms: ToolTerms,
        log: DecisionLog,
        limits: ToolCallLimits,
    ) -> None:
        super().__init__(limits.comment_seconds)
        self._terms = terms
        self._api = request.api
        self._is_noted = terms.is_noted and request.api is _CHAT
        self._verdicts = CalledTools(
            request, terms, log, is_noted=self._is_noted, logs_allowed=limits.logs_allowed
        )
        self._held_bytes_max = limits.held_bytes_max
        self._calls: dict[tuple[int, int], StreamedCall] = {}
        # The call of each choice whose name may go on: another one ends it. And all events of calls
        # since the first of them began.
        self._pending: dict[int, tuple[int, int]] = {}
        self._held: list[bytes] = []
        self._held_bytes = 0
        # How many calls of each choice are left, and whether any was taken out.
        self._left: dict[int, int] = {}
        self._has_removed = False
        # The beginning of a mark at the end of each text.
        self._tails: dict[int, str] = {}
        # Of the last event with a text: what stood before the text and behind it.
        self._before: bytes | None = None
        self._behind = b""

    def passes(self, events: bytes) -> bool:
        """Return whether this is one event that adds a harmless text, as the last one did.

        This costs a tenth of a search in the whole event: a text is a few bytes.
        """
        before, behind = self._before, self._behind
        if before is None or not events.startswith(before) or not events.endswith(behind):
            return False
        # Numbers that compiled code need not check for their size.
        at: i64 = len(before)
        end: i64 = len(events)
        end -= len(behind)
        if end - at > _SHORT_BYTES:
            return _is_harmless(events[len(before) : -len(behind)])
        while at < end:
            byte: i64 = events[at]
            # All that may matter is among the bytes up to the escape, most letters are not.
            if byte <= _ESCAPE and (byte >= _BRACKET or byte in (_ANGLE, _QUOTE, _LINE_END)):
                return _is_harmless(events[len(before) : -len(behind)])
            at += 1
        # Not where what stood before and behind the text would overlap.
        return at == end

    def events(self, events: bytes) -> bytes:
        passed: list[bytes] = []
        for each in events[: -len(END)].split(END):
            event = each + END
            passed.append(event if self.passes(event) else self._event(event))
            if self.withheld is not None:
                break
        return b"".join(passed)

    def answer(self, answer: bytes) -> bytes:
        # Vectors are megabytes of lists, and call nothing.
        if self._api is _EMBEDDINGS or not (_may_call(answer) or self._may_have_text_call(answer)):
            return answer
        found = read_answer(self._api, answer)
        if found is None:
            self._verdicts.refuse_unreadable("of an unknown form")
        else:
            answer = self._judged_answer(answer, found)
        self.withheld = self._verdicts.failure
        return answer

    def _place_of(self, choice: int, index: int) -> int | None:
        return self._calls[choice, index].place

    def _take_note(self, choice: int, index: int) -> str:
        call = self._calls[choice, index]
        note, call.note = call.note, ""
        return note

    def _is_bare(self, choice: int) -> bool:
        return not self._left.get(choice)

    def _judged_answer(self, answer: bytes, found: AnswerCalls) -> bytes:
        verdicts = self._verdicts
        allowed = [verdicts.allows(name, len(answer)) for name in found.names]
        if self._terms.denies_text_calls and any(map(has_text_call, found.texts)):
            verdicts.refuse_unreadable(_WRITTEN_AS_TEXT)
        if all(allowed) or verdicts.has_failed():
            return answer
        return answer_without_calls(answer, self._note)

    def _note(self, name: str) -> str | None:
        return None if self._terms.allows(name) else note_on(self._terms, name)

    def _event(self, event: bytes) -> bytes:
        # Nothing is known by its looks while a name or a mark may go on.
        self._before = None
        is_calm = not self._pending and not self._tails
        if is_calm and not _may_call(event) and not self._may_have_text_call(event):
            self._learn(event)
            return event
        piece = read_event(self._api, event)
        if piece is None:
            if not _may_call(event) and not self._pending:
                return event
            self._verdicts.refuse_unreadable("of an unknown form")
            self.withheld = self._verdicts.failure
            return event if self.withheld is None else b""
        released = self._judged(event, piece)
        self.withheld = self._verdicts.failure
        return event if self._terms.is_observed else released

    def _judged(self, event: bytes, piece: EventPiece) -> bytes:
        """Judge what an event makes whole; return the events that may go out."""
        for text in piece.texts:
            self._end_names(text.choice)
        for call in piece.calls:
            self._add(call)
        for choice in piece.finished:
            self._end_names(choice)
        if piece.is_last:
            self._end_names(None)
        if self._verdicts.has_failed():
            return b""
        if piece.calls and self._pending:
            return self._hold(event)
        released = b"" if self._pending else self._release()
        for text in piece.texts:
            self._look_at(text)
        if self._verdicts.has_failed():
            return released
        return released + self._rewritten(event)

    def _add(self, piece: CallPiece) -> None:
        key = (piece.choice, piece.at)
        call = self._calls.get(key)
        if call is None:
            # The names of the calls before it are whole.
            self._end_names(piece.choice)
            call = self._calls[key] = StreamedCall()
            self._pending[piece.choice] = key
        elif call.is_judged and piece.name:
            # A whole name is judged by itself: some engines number items of the last event anew.
            if piece.is_exact:
                self._verdicts.allows(piece.name, self._held_bytes)
            else:
                self._verdicts.refuse_unreadable("whose name goes on after the call was judged")
            return
        if not call.is_judged:
            call.name += piece.name
            if piece.is_whole:
                self._end_name(key)

    def _end_names(self, choice: int | None) -> None:
        """Judge all calls of a choice, or of all, whose names were not whole until now."""
        if choice is None:
            for key in list(self._pending.values()):
                self._end_name(key)
        elif choice in self._pending:
            self._end_name(self._pending[choice])

    def _end_name(self, key: tuple[int, int]) -> None:
        del self._pending[key[0]]
        if self._verdicts.has_failed():
            return
        call = self._calls[key]
        call.is_judged = True
        if self._verdicts.allows(call.name, self._held_bytes):
            call.place = self._left.get(key[0], 0) if self._has_removed else key[1]
            self._left[key[0]] = self._left.get(key[0], 0) + 1
        elif self._is_noted:
            self._has_removed = True
            call.note = note_on(self._terms, call.name)

    def _hold(self, event: bytes) -> bytes:
        if self._terms.is_observed:
            return b""
        self._held.append(event)
        self._held_bytes += len(event)
        if self._held_bytes > self._held_bytes_max:
            self._verdicts.refuse_unreadable("whose name does not end")
        return b""

    def _release(self) -> bytes:
        if not self._held:
            return b""
        held, self._held, self._held_bytes = self._held, [], 0
        return b"".join([self._rewritten(event) for event in held])

    def _rewritten(self, event: bytes) -> bytes:
        if not self._has_removed or event.startswith(_DONE) or not _may_call(event):
            return event
        places = CallPlaces(self._place_of, self._take_note, self._is_bare)
        return event_without_calls(event, places)

    def _look_at(self, piece: TextPiece) -> None:
        if not self._terms.denies_text_calls:
            return
        text = piece.text
        if not piece.is_repeat:
            text = self._tails.pop(piece.choice, "") + text
            rest = unfinished_mark(text)
            if rest:
                self._tails[piece.choice] = rest
        if has_text_call(text):
            self._verdicts.refuse_unreadable(_WRITTEN_AS_TEXT)

    def _may_have_text_call(self, data: bytes) -> bool:
        """Return whether a text in these bytes may have a mark, or begin one."""
        if not self._terms.denies_text_calls:
            return False
        if data.find(b"<") >= 0 or data.find(_HEX_ESCAPE) >= 0:
            return True
        at = data.find(b"[")
        while at >= 0:
            if data[at - 3 : at + 1] != _LIST:
                return True
            at = data.find(b"[", at + 1)
        return False

    def _learn(self, event: bytes) -> None:
        """Note what an event has around its text, to know one like it."""
        for key in _TEXT_KEYS:
            start = event.find(key)
            if start >= 0:
                start += len(key)
                end = event.find(b'"', start)
                # A text that ends with an escape has its end elsewhere.
                if event.find(b"\\", start, end) < 0:
                    self._before, self._behind = event[:start], event[end:]
                return


def _may_call(data: bytes) -> bool:
    """Return whether an event may call: `tool_calls`, `function_call`, `input_json_delta`."""
    return (
        data.find(b"_call") >= 0
        or data.find(b"tool_use") >= 0
        or data.find(b"input_json") >= 0
        or data.find(b"approval_request") >= 0
        or data.find(_HEX_ESCAPE) >= 0
    )


def _is_harmless(text: bytes) -> bool:
    """Return whether a text, as JSON writes it, has no mark and is nothing more than a text."""
    if _LINE_END in text or (_QUOTE in text and _may_call(text)):
        # Several events, or more in one than the text.
        return False
    has_openings = _ANGLE in text or _BRACKET in text or _ESCAPE in text
    return not has_openings or is_harmless(text)
