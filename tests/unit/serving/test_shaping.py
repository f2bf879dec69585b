"""Shapers put together: a copy, a filter, several answers in one stream."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.serving.shaping import Joiner, RenamedReasoning, Shaper, Steps

DONE = b"data: [DONE]\n\n"


def event(text: str) -> bytes:
    return b"data: %s\n\n" % text.encode()


def find_done(events: bytes) -> int:
    return len(events) - len(DONE) if events.endswith(DONE) else len(events)


class ToolCallFilter(Shaper):
    """Holds tool calls back until the stream's end, and lets those pass that are allowed."""

    def __init__(self, allowed: str) -> None:
        self._allowed = event(f"call {allowed}")
        self._held = b""

    def events(self, events: bytes) -> bytes:
        passed = b""
        for text in events.split(b"\n\n")[:-1]:
            whole = text + b"\n\n"
            if whole.startswith(b"data: call"):
                self._held += whole if whole == self._allowed else b""
            else:
                passed += whole
        return passed

    def end(self) -> bytes:
        return self._held


texts = st.lists(st.sampled_from(["a", "b", "call rm", "call ls", '{"reasoning":1}']), max_size=8)


@given(texts)
def test_a_shaper_of_its_own_changes_nothing(parts: list[str]) -> None:
    shaper = Steps(Shaper(), Steps(Shaper(), Shaper()))
    whole = b"".join(map(event, parts))
    assert b"".join(shaper.events(event(part)) for part in parts) + shaper.end() == whole
    assert shaper.answer(whole) == whole


@given(texts)
def test_steps_take_out_and_rename(parts: list[str]) -> None:
    shaper = Steps(ToolCallFilter("ls"), RenamedReasoning())
    sent = b"".join(shaper.events(event(part)) for part in parts) + shaper.end()
    assert b"call rm" not in sent
    assert sent.count(b"call ls") == parts.count("call ls")
    assert b'"reasoning":' not in sent


@given(st.lists(texts, min_size=1, max_size=4))
def test_joined_answers_are_one_stream_with_one_end(answers: list[list[str]]) -> None:
    shaper = Steps(Joiner(find_done), Shaper())
    sent = b""
    for parts in answers:
        for part in parts:
            sent += shaper.events(event(part))
        sent += shaper.events(DONE)
    sent += shaper.end()
    assert sent == b"".join(event(part) for parts in answers for part in parts) + DONE
    assert shaper.end() == b""


def test_an_end_mark_that_comes_with_events_is_held_back_alone() -> None:
    joiner = Joiner(find_done)
    assert joiner.events(event("a") + DONE) == event("a")
    assert joiner.end() == DONE
