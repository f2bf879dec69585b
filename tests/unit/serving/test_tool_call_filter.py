"""No event of a forbidden call goes out, however the stream is cut; allowed ones are untouched."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.serving.screened_answers import (
    DENY_BASH,
    DONE,
    FINISH,
    READ_ONLY,
    RECORDED,
    ROLE,
    Written,
    calls,
    chunk,
    part,
    relay,
    relayed,
    screen,
    terms,
    text,
)

from penstock.errors import JournalFull, ToolCallForbidden, ToolCallUnreadable
from penstock.records.request import Api
from penstock.serving.tool_call_limits import ToolCallLimits
from penstock.wire.apis.text_calls import MARKS

ALLOWED = b"".join(
    [
        ROLE,
        text("I look <b>at</b> "),
        text('"it" [1].'),
        calls(part(0, "read_file")),
        calls(part(0, None, '{"path":')),
        calls(part(0, None, '"a"}'), part(1, "grep", "{}")),
        FINISH,
        DONE,
    ]
)
DENIED = b"".join(
    [
        ROLE,
        text("I look."),
        calls(part(0, "grep", '{"q":"x"}')),
        calls(part(1, "bash")),
        calls(part(1, None, '{"cmd":"rm -rf /secret"}')),
        FINISH,
        DONE,
    ]
)
SPLIT = b"".join(
    [ROLE, calls(part(0, "ba")), calls(part(0, "sh")), calls(part(0, None, '{"cmd":"ls"}')), FINISH]
)
AS_TEXT = b"".join(
    [ROLE, text("Well, <tool"), text("_ca"), text('ll>{"name":"bash"}'), chunk({}, "stop"), DONE]
)
STREAMS = {"allowed": ALLOWED, "denied": DENIED, "split": SPLIT, "text": AS_TEXT}
NAMED = {
    Api.RESPONSES: ("responses.tools", b"get_weather"),
    Api.MESSAGES: ("messages.tools", b"get_weather"),
}


def outcome(pieces: list[bytes], api: Api = Api.CHAT, rules: str = READ_ONLY) -> tuple[Any, ...]:
    log = Written()
    screened = screen(terms(rules), api, log)
    got = relayed(pieces, screened, api)
    return got, type(screened.withheld), str(screened.withheld), log.said()


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_cut_anywhere_has_the_same_verdict_and_the_same_bytes(name: str) -> None:
    stream = STREAMS[name]
    whole = outcome([stream])
    for at in range(1, len(stream)):
        assert outcome([stream[:at], stream[at:]]) == whole, at
    assert outcome([stream[at : at + 1] for at in range(len(stream))]) == whole


@pytest.mark.parametrize("api", NAMED)
@pytest.mark.parametrize("rule", ["allow", "deny"])
def test_named_streams_cut_anywhere_have_the_same_verdict(api: Api, rule: str) -> None:
    file, name = NAMED[api]
    stream = (RECORDED / f"{file}.sse").read_bytes()
    rules = f'default = "allow"\n{rule} = ["get_*"]'
    whole = outcome([stream], api, rules)
    for at in range(1, len(stream), 7):
        assert outcome([stream[:at], stream[at:]], api, rules) == whole, at
    assert outcome([stream[at : at + 1] for at in range(len(stream))], api, rules) == whole
    assert whole[1] is (ToolCallForbidden if rule == "deny" else type(None))
    if rule == "deny":
        assert name not in whole[0].partition(b"output_item")[2] or api is Api.MESSAGES
        assert b"Oslo" not in whole[0].replace(b'"enum":["Oslo"]', b"")


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.sse")), ids=lambda path: path.stem)
@pytest.mark.parametrize("rules", ['default = "allow"', READ_ONLY.replace("grep", "get_*")])
def test_what_is_allowed_reaches_the_client_byte_for_byte(path: Any, rules: str) -> None:
    stream = path.read_bytes()
    api = {"responses": Api.RESPONSES, "messages": Api.MESSAGES}.get(
        path.name.partition(".")[0], Api.CHAT
    )
    count = 2 if path.name.startswith("two") else 1
    for size in (1, 50, len(stream)):
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        plain = relay(api, count)
        expected = b"".join(plain.feed(piece) for piece in pieces)
        assert relayed(pieces, screen(terms(rules), api), api) == expected


def test_nothing_of_a_forbidden_call_goes_out() -> None:
    got, kind, message, said = outcome([DENIED])
    assert kind is ToolCallForbidden
    assert got.endswith(calls(part(0, "grep", '{"q":"x"}')))
    assert b"bash" not in got
    assert b"secret" not in got
    assert said == [("deny", ("bash",))]
    assert "`bash`" in message
    assert "w@3" in message
    assert 'default = "deny"' in message
    assert "read_*" in message
    assert "secret" not in message


def test_a_name_in_pieces_is_judged_as_a_whole() -> None:
    got, kind, _, said = outcome([SPLIT], rules=DENY_BASH)
    assert (got, kind, said) == (ROLE, ToolCallForbidden, [("deny", ("bash",))])


@pytest.mark.parametrize(
    "stream",
    [
        # The name goes on after arguments, after another call, and after text.
        [calls(part(0, "ba", "{")), calls(part(0, "sh", "}"))],
        [calls(part(0, "ba")), calls(part(1, "grep")), calls(part(0, "sh"))],
        [calls(part(0, "ba")), text("so"), calls(part(0, "sh"))],
        # There is no name at all.
        [calls(part(0, None, "{}"))],
        [calls(part(0)), FINISH, DONE],
        [b'data: {"choices":[{"index":0,"delta":{"tool_calls":[5]}}]}\n\n'],
    ],
)
def test_a_call_whose_name_cannot_be_known_is_unreadable(stream: list[bytes]) -> None:
    assert outcome(stream, rules='default = "allow"\ndeny = ["bash"]')[1] is ToolCallUnreadable


@pytest.mark.parametrize("end", [FINISH, DONE, text("more"), calls(part(1, "grep", "{}"))])
def test_a_name_is_whole_when_something_else_follows(end: bytes) -> None:
    screened = screen(terms(READ_ONLY))
    begun = calls(part(0, "read_file"))
    assert screened.events(begun) == b""
    assert screened.events(end) == begun + end


def test_text_of_another_choice_passes_while_a_call_is_held() -> None:
    screened = screen(terms(READ_ONLY))
    held, other = calls(part(0, "read_file"), choice=1), text("so", choice=0)
    assert screened.events(held) == b""
    assert screened.events(other) == other
    more = calls(part(0, None, "{}"), choice=1)
    assert screened.events(more) == held + more


def test_choices_are_judged_apart() -> None:
    screened = screen(terms(DENY_BASH))
    assert screened.events(calls(part(0, "ba"), choice=0)) == b""
    assert screened.events(calls(part(0, "sh"), choice=1)) == b""
    screened.events(FINISH)
    assert screened.withheld is None


def test_what_is_held_is_bounded() -> None:
    limits = ToolCallLimits(held_bytes_max=4096)
    screened = screen(terms(DENY_BASH), limits=limits)
    for _ in range(100):
        assert screened.events(calls(part(0, "x" * 100))) == b""
    assert isinstance(screened.withheld, ToolCallUnreadable)


def test_a_function_call_of_the_older_form_is_judged() -> None:
    begun, more = (chunk({"function_call": f}) for f in ({"name": "bash"}, {"arguments": "{}"}))
    assert outcome([begun + more])[1] is ToolCallForbidden
    assert outcome([begun + more], rules=DENY_BASH.replace("bash", "sh"))[0] == begun + more


@pytest.mark.parametrize("mark", MARKS)
def test_a_call_written_as_text_is_withheld_in_any_pieces(mark: str) -> None:
    for at in range(1, len(mark)):
        got, kind, _, said = outcome(
            [text("So: " + mark[:at]), text(mark[at:]), text('{"cmd":"ls"}')], rules=DENY_BASH
        )
        assert kind is ToolCallUnreadable, (mark, at)
        assert b"cmd" not in got
        assert said == [("deny", ())]


def test_a_mark_that_is_escaped_is_found() -> None:
    event = text("X").replace(b'"X"', rb'"\u003ctool_call\u003e"')
    assert outcome([event], rules=DENY_BASH)[1] is ToolCallUnreadable


def test_text_calls_may_be_left() -> None:
    rules = f'{DENY_BASH}\ntext_calls = "leave"'
    assert outcome([AS_TEXT], rules=rules)[:2] == (AS_TEXT, type(None))


@given(st.lists(st.text(alphabet='<tool_cal>|[TOL_CS]" \\éx', max_size=6), max_size=12))
@settings(max_examples=150, deadline=None)
def test_any_text_passes_untouched_or_has_a_mark(pieces: list[str]) -> None:
    stream = [text(piece) for piece in pieces]
    got, kind, *_ = outcome(stream, rules=DENY_BASH)
    has_mark = any(mark in "".join(pieces) for mark in MARKS)
    assert (kind is ToolCallUnreadable) == has_mark
    if not has_mark:
        assert got == b"".join(stream)


NAMES = ("bash", "read_file", "grep", "sh")
ENTRIES = st.tuples(st.integers(0, 2), st.sampled_from([None, "ba", *NAMES]), st.booleans())
EVENTS = st.one_of(
    st.tuples(st.just("calls"), st.lists(ENTRIES, min_size=1, max_size=3)),
    st.tuples(st.just("text"), st.sampled_from(["so ", "tool_calls", "a_call"])),
)


def made(events: list[Any]) -> list[bytes]:
    found = []
    for kind, value in events:
        if kind == "text":
            found.append(text(value))
        else:
            found.append(
                calls(*(part(at, name, "{}" if args else None) for at, name, args in value))
            )
    return [*found, FINISH, DONE]


def accumulated(stream: bytes) -> dict[int, str]:
    """The names that a client gets of a stream, joined as openai's SDK joins them."""
    names: dict[int, str] = {}
    for line in stream.split(b"\n\n"):
        if not line.startswith(b"data: {"):
            continue
        for choice in msgspec.json.decode(line[6:])["choices"]:
            for call in choice["delta"].get("tool_calls") or ():
                name = call["function"].get("name") or ""
                names[call["index"]] = names.get(call["index"], "") + name
    return names


@given(st.lists(EVENTS, max_size=6))
@settings(max_examples=300, deadline=None)
def test_no_client_ever_joins_a_forbidden_name(events: list[Any]) -> None:
    stream = made(events)
    got, kind, *_ = outcome(stream, rules=DENY_BASH)
    assert "bash" not in accumulated(got).values()
    if kind is type(None):
        assert got == b"".join(stream)


@given(st.lists(EVENTS, max_size=6))
@settings(max_examples=100, deadline=None)
def test_what_only_observes_changes_nothing(events: list[Any]) -> None:
    log = Written()
    screened = screen(terms(READ_ONLY, 'mode = "observe"'), log=log)
    stream = made(events)
    assert relayed(stream, screened) == b"".join(stream)
    assert all(row.is_observed for row in log.rows)


def test_an_observed_call_is_logged_and_passes() -> None:
    log = Written()
    screened = screen(terms(READ_ONLY, 'mode = "observe"'), log=log)
    assert relayed([DENIED], screened) == DENIED
    assert log.said() == [("deny", ("bash",))]
    full = screen(terms(READ_ONLY, 'mode = "observe"'), log=Written(is_full=True))
    assert relayed([DENIED], full) == DENIED


def test_no_effect_leaves_without_its_row() -> None:
    for stream, rules in ((DENIED, READ_ONLY), (AS_TEXT, DENY_BASH)):
        screened = screen(terms(rules), log=Written(is_full=True))
        relayed([stream], screened)
        assert isinstance(screened.withheld, JournalFull)
    logging = ToolCallLimits(logs_allowed=True)
    screened = screen(terms(READ_ONLY), log=Written(is_full=True), limits=logging)
    assert b"read_file" not in relayed([ALLOWED], screened)
    assert isinstance(screened.withheld, JournalFull)


def test_allowed_calls_are_logged_where_that_is_asked_for() -> None:
    log = Written()
    screened = screen(terms(READ_ONLY), log=log, limits=ToolCallLimits(logs_allowed=True))
    relayed([ALLOWED], screened)
    assert log.said() == [("allow", ("read_file",)), ("allow", ("grep",))]
    assert {name for row in log.rows for name in row.facts} == {"held_bytes", "name_characters"}


def test_names_in_the_log_are_bounded_and_printable() -> None:
    log = Written()
    relayed([calls(part(0, "b\n\u202e" + "a" * 500, "{}"))], screen(terms(READ_ONLY), log=log))
    (row,) = log.rows
    assert len(row.subjects[0]) == 128
    assert row.subjects[0].isprintable()


def test_a_spelling_that_clients_repair_is_the_same_name() -> None:
    for name in ("Bash", " bash ", "BASH", "\ufeffbash", "ba\u200bsh", "bash\0", "\uff42ash"):
        assert outcome([calls(part(0, name, "{}"))], rules=DENY_BASH)[1] is ToolCallForbidden


NOTE = f'{READ_ONLY}\non_forbidden = "note"'


def test_a_note_takes_the_place_of_a_call() -> None:
    log = Written()
    got = relayed([DENIED], screen(terms(NOTE), log=log))
    assert log.said() == [("change", ("bash",))]
    assert accumulated(got) == {0: "grep"}
    assert b"secret" not in got
    assert b"contract w@3 forbids the tool `bash`" in got
    assert b'"finish_reason":"tool_calls"' in got
    assert got.endswith(DONE)


def test_a_note_alone_ends_the_answer_as_text() -> None:
    stream = [ROLE, calls(part(0, "bash")), calls(part(0, None, "{}")), FINISH, DONE]
    got = relayed(stream, screen(terms(NOTE)))
    assert accumulated(got) == {}
    assert b'"finish_reason":"stop"' in got
    assert len(re.findall(rb"was not made", got)) == 1


def test_calls_behind_one_that_is_taken_out_are_numbered_anew() -> None:
    stream = [
        calls(part(0, "bash", "{}"), part(1, "grep")),
        calls(part(1, None, '{"q":')),
        calls(part(1, None, "1}"), part(2, "read_file", "{}")),
        FINISH,
    ]
    got = relayed(stream, screen(terms(NOTE)))
    assert accumulated(got) == {0: "grep", 1: "read_file"}


def test_other_apis_get_the_error_where_chat_gets_a_note() -> None:
    stream = (RECORDED / "messages.tools.sse").read_bytes()
    screened = screen(terms(NOTE), Api.MESSAGES)
    relayed([stream], screened, Api.MESSAGES)
    assert isinstance(screened.withheld, ToolCallForbidden)
