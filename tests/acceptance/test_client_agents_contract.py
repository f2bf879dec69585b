"""OpenAI's agents SDK, by streams, under contracts that forbid one of its functions.

Each test runs on chat, on Responses that are stored, which are composed of chat, and on Responses
that are not, which the engine makes.
"""

from typing import Any

from tests.acceptance.client_cell import GPT_OSS, ClientCell
from tests.acceptance.client_contracts import (
    ERROR,
    NOTE,
    STRIP,
    check_equal_tools,
    check_words,
    offered,
    turns,
)
from tests.acceptance.client_run import run_python

BASH = 'CALL bash {"command": "ls"}'
WEATHER = 'CALL weather {"city": "Porto"}'
APIS = ["chat", "stored", "unstored"]


def run(cell: ClientCell, workflow: str, prompt: str) -> Any:
    cell.forget()
    given = {"model": GPT_OSS, "workflow": workflow, "prompt": prompt}
    told = run_python("agents_contract.py", cell, case="everywhere", **given)
    assert list(told) == APIS
    return told


def test_forbidden_function_does_not_run_and_its_error_is_raised(
    contracted_cell: ClientCell,
) -> None:
    told = run(contracted_cell, ERROR, BASH)
    for each in told.values():
        assert each["ran"] == []
        check_words(each["raised"], ERROR, "bash")
    assert told["chat"]["code"] == "tool_call_forbidden"
    # Of Responses the SDK shows the whole error, and has no attribute.
    assert "reason='tool_call_forbidden'" in told["stored"]["raised"]
    assert "reason='tool_call_forbidden'" in told["unstored"]["raised"]
    assert ["bash" in offered(turn) for turn in turns(contracted_cell)] == [True] * 3


def test_note_takes_the_place_of_a_forbidden_call_and_the_agent_goes_on(
    contracted_cell: ClientCell,
) -> None:
    told = run(contracted_cell, NOTE, f"{BASH} {WEATHER}")
    sent = turns(contracted_cell)
    for api, second in (("chat", sent[1]), ("stored", sent[3])):
        assert told[api]["ran"] == ["weather Porto"]
        note, last = told[api]["texts"]
        check_words(note, NOTE, "bash")
        assert told[api]["text"] == last != ""
        # The model reads the note in the next turn.
        assert note in [message["content"] for message in second["body"]["messages"]]
    # The engine's own responses cannot take one: there it is the error.
    assert told["unstored"]["ran"] == []
    check_words(told["unstored"]["raised"], NOTE, "bash")
    assert len(sent) == 5


def test_forbidden_function_is_offered_in_no_turn(contracted_cell: ClientCell) -> None:
    told = run(contracted_cell, STRIP, WEATHER)
    assert [each["ran"] for each in told.values()] == [["weather Porto"]] * 3
    assert all(each["text"] for each in told.values())
    sent = turns(contracted_cell)
    for first, second in zip(sent[::2], sent[1::2], strict=True):
        assert offered(first) == {"weather"}
        check_equal_tools(first, second)
    assert len(sent) == 6
