"""A call is found however its event is written, and no odd event breaks an answer."""

import time
from typing import Any

import msgspec
import pytest
from tests.unit.serving.screened_answers import (
    DONE,
    FINISH,
    READ_ONLY,
    ROLE,
    Written,
    calls,
    chunk,
    part,
    relayed,
    screen,
    terms,
    text,
)

from penstock.errors import ToolCallForbidden, ToolCallUnreadable
from penstock.records.request import Api

CALL = calls(part(0, "bash", '{"cmd":"secret"}'))
DATA = CALL.removeprefix(b"data: ")
ONLY_NAMES = f'{READ_ONLY}\ntext_calls = "leave"'
USAGE = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"my_caller","choices":[]'
    b',"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}\n\n'
)


def named(kind: str, **fields: Any) -> bytes:
    """An event of Responses or Messages."""
    shown = msgspec.json.encode({"type": kind, **fields})
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), shown)


def added(index: int, **item: Any) -> bytes:
    return named("response.output_item.added", output_index=index, item=item)


@pytest.mark.parametrize(
    "event",
    [
        b"data:" + DATA,
        b": a comment\ndata: " + DATA,
        # Each of these is an end of a line, too.
        b": a comment\rdata: " + DATA,
        b"event: message\r\ndata: " + DATA,
        b"\xef\xbb\xbfdata: " + DATA,
        b"data: " + DATA[:-2].replace(b",", b",\ndata: ") + b"\n\n",
        CALL.replace(b"tool_calls", rb"tool\u005fcalls"),
        CALL.replace(b"tool_calls", rb"t\u006fol\u005F\u0063alls").replace(b"bash", rb"b\u0061sh"),
        CALL.replace(b'"delta":', b'"delta":{"content":"x"},"message":'),
    ],
)
def test_a_call_is_found_however_its_event_is_written(event: bytes) -> None:
    screened = screen(terms(ONLY_NAMES))
    assert screened.events(ROLE + text("so ") + event) == ROLE + text("so ")
    assert isinstance(screened.withheld, ToolCallForbidden)


def test_a_call_with_two_tools_is_unreadable() -> None:
    twofold = {"function": {"name": "grep", "arguments": "{}"}, "custom": {"name": "bash"}}
    screened = screen(terms(ONLY_NAMES))
    event = chunk({"tool_calls": [{"index": 0, **twofold}]})
    assert screened.events(event) + screened.events(FINISH) == b""
    assert isinstance(screened.withheld, ToolCallUnreadable)
    whole = screen(terms(ONLY_NAMES))
    whole.answer(msgspec.json.encode({"choices": [{"message": {"tool_calls": [twofold]}}]}))
    assert isinstance(whole.withheld, ToolCallUnreadable)


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_call_that_waits_for_approval_is_judged(is_stream: bool) -> None:
    item = {"type": "mcp_approval_request", "server_label": "x", "name": "drop", "arguments": "{}"}
    screened = screen(terms(ONLY_NAMES), Api.RESPONSES)
    if is_stream:
        assert relayed([added(0, **item)], screened, Api.RESPONSES) == b""
    else:
        screened.answer(msgspec.json.encode({"output": [item]}))
    assert isinstance(screened.withheld, ToolCallForbidden)
    assert "mcp__x__drop" in screened.withheld.message


@pytest.mark.parametrize(("last", "is_withheld"), [("grep", False), ("bash", True)])
def test_items_that_are_numbered_anew_at_the_end_are_judged_by_their_names(
    last: str, is_withheld: bool
) -> None:
    stream = [
        added(1, type="function_call", name="read_file"),
        added(2, type="function_call", name="grep"),
        named(
            "response.completed",
            response={
                "output": [
                    {"type": "function_call", "name": "grep"},
                    {"type": "function_call", "name": last},
                ]
            },
        ),
    ]
    screened = screen(terms(ONLY_NAMES), Api.RESPONSES)
    relayed(stream, screened, Api.RESPONSES)
    assert (screened.withheld is not None) == is_withheld


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_the_rows_of_one_answer_are_bounded(mode: str) -> None:
    log = Written()
    rules = terms(f'{READ_ONLY}\non_forbidden = "note"', f'mode = "{mode}"')
    screened = screen(rules, log=log)
    for number in range(600):
        screened.events(calls(part(number, f"sh{number}", "{}")))
        if screened.withheld is not None:
            break
    assert len(log.rows) == 501
    assert log.rows[-1].reason == "tool_call_unreadable"
    assert isinstance(screened.withheld, ToolCallUnreadable) == (mode == "enforce")


def test_many_choices_with_calls_take_linear_time() -> None:
    def seconds(count: int) -> float:
        event = b"".join(calls(part(0, "grep"), choice=choice) for choice in range(count))
        screened = screen(terms(READ_ONLY))
        started = time.process_time()
        screened.events(event + DONE)
        assert screened.withheld is None
        return time.process_time() - started

    assert seconds(4000) < 20 * seconds(400)


def test_events_without_an_answer_stay_behind_a_note() -> None:
    log = Written()
    screened = screen(terms(f'{READ_ONLY}\non_forbidden = "note"'), log=log)
    assert b"was not made" in screened.events(CALL)
    error = b'data: {"error":{"message":"The tool_calls are broken."}}\n\n'
    for event in (USAGE, error):
        assert screened.events(event) == event
    assert log.said() == [("change", ("bash",))]
