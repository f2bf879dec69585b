"""Why did my cache break? The first part that differs from the turn before, or nothing."""

import pytest
from tests.unit.routing.routing_samples import a_request, a_router, exchange, replicas, serve

from penstock.records.signal import PeerState
from penstock.routing import Router

FIRST = ("tools", "system", "hello")
SECOND = (*FIRST, "hi", "what is new?")
THIRD = (*SECOND, "nothing", "really?")

CHANGES = {
    "appended": (THIRD, ""),
    "the same again": (SECOND, ""),
    "tools": (("tools 2", "system", "hello", "hi", "what is new?", "n", "r"), "tools"),
    "system": (("tools", "system 2", "hello", "hi", "what is new?", "n", "r"), "system"),
    "first message": (("tools", "system", "hello!", "hi", "what is new?"), "message 1"),
    "message": (("tools", "system", "hello", "hi there", "what is new?"), "message 2"),
    "last message": (("tools", "system", "hello", "hi", "what is up?"), "message 3"),
    "cut short": (("tools", "system", "hello"), "message 2"),
    "compacted": (("tools", "system", "so far: hello", "ok", "go on"), "message 1"),
    "compacted behind the first": (("tools", "system", "hello", "so far", "go on"), "message 2"),
}


def ask(router: Router, *parts: str, now: float, session: int = 1) -> str:
    return serve(router, a_request(*parts, session=session), now).cache_break


@pytest.mark.parametrize(("parts", "change"), CHANGES.values(), ids=CHANGES)
def test_change_is_named(parts: tuple[str, ...], change: str) -> None:
    router = a_router(*replicas(2))
    assert ask(router, *FIRST, now=1) == ""
    assert ask(router, *SECOND, now=2) == ""
    assert ask(router, *parts, now=3) == change


@pytest.mark.parametrize(("parts", "change"), CHANGES.values(), ids=CHANGES)
def test_change_is_named_by_a_gateway_that_only_heard_of_the_turns_before(
    parts: tuple[str, ...], change: str
) -> None:
    one, two = a_router(*replicas(2)), a_router(*replicas(2))
    for router in (one, two):
        router.note_peers(PeerState.HEARD)
        ask(router, "another", now=0.0, session=99)
    exchange(one, two, now=0.5)
    for now, turn in ((1.0, FIRST), (2.0, SECOND)):
        assert ask(one, *turn, now=now) == ""
        exchange(one, two, now=now + 0.5)
    assert ask(two, *parts, now=3.0) == change


def test_turns_taken_at_two_gateways_break_nothing() -> None:
    one, two = a_router(*replicas(3)), a_router(*replicas(3))
    for router in (one, two):
        router.note_peers(PeerState.HEARD)
        ask(router, "another", now=0.0, session=99)
    parts = list(FIRST)
    for turn in range(10):
        assert ask((one, two)[turn % 2], *parts, now=1.0 + turn) == ""
        exchange(one, two, now=1.5 + turn)
        parts += [f"answer {turn}", f"more {turn}"]


def test_conversations_beside_each_other_under_one_key_break_nothing() -> None:
    router = a_router(*replicas(2))
    talks = [
        ["tools", "system", "hello"],
        ["no tools", "write a title", "hello there"],
        ["tools", "you are a searcher", "find it"],
    ]
    for turn in range(5):
        for number, parts in enumerate(talks):
            assert ask(router, *parts, now=turn + number / 10) == ""
            parts += [f"answer {turn}", f"more {turn}"]


def test_conversations_that_share_their_system_prompt_are_told_apart_once_they_are_known() -> None:
    router = a_router(*replicas(2))
    talks = [["tools", "system", f"do {number}"] for number in range(3)]
    for turn in range(5):
        for number, parts in enumerate(talks):
            broken = ask(router, *parts, now=turn + number / 10)
            # At first sight the second may as well be the first one, compacted.
            assert broken == "" or turn == 0
            parts += [f"answer {turn}", f"more {turn}"]


def test_forgotten_session_has_no_earlier_turn_to_differ_from() -> None:
    router = a_router(*replicas(2), sessions_max=2)
    ask(router, *SECOND, now=1, session=1)
    for session in (2, 3):
        ask(router, *FIRST, now=2, session=session)
    assert ask(router, "tools 2", *THIRD[1:], now=3, session=1) == ""


def test_sessions_are_not_compared_with_each_other() -> None:
    router = a_router(*replicas(2))
    ask(router, *SECOND, now=1, session=1)
    assert ask(router, "tools 2", *SECOND[1:], now=2, session=12) == ""


def test_break_is_said_once() -> None:
    router = a_router(*replicas(2))
    ask(router, *SECOND, now=1)
    changed = ("tools 2", *THIRD[1:])
    assert ask(router, *changed, now=2) == "tools"
    assert ask(router, *changed, "x", "y", now=3) == ""


def test_long_conversation_still_names_a_change_of_its_beginning() -> None:
    router = a_router(*replicas(2))
    parts = list(FIRST)
    for turn in range(300):
        assert ask(router, *parts, now=turn) == ""
        parts += [f"answer {turn}", f"more {turn}"]
    assert ask(router, "tools", "system 2", *parts[2:], now=999) == "system"
