"""Several chat answers and the calls between them become one response."""

import json
from typing import Any

import pytest

from penstock.wire.apis.response_items import render
from penstock.wire.apis.response_object import echo_of, new_response
from penstock.wire.apis.server_calls import ModelCall, public_response
from penstock.wire.apis.turn_composer import AskedCall, ChatAnswer, TurnComposer

KEY = "0123456789abcdef0123456789abcdef"
CODE = '{"code": "print(6*7)"}'
CITED = {"type": "container_file_citation", "file_id": "cfile_1", "filename": "plot.png"}
GONE = {"code": "engine_lost", "message": "gone"}


def composer(*, has_outputs: bool = True) -> TurnComposer:
    response = new_response(f"resp_{KEY}", 1000, "m", echo_of({}))
    return TurnComposer(response, lambda: 1010.9, {"python", "docs__find"}, has_outputs=has_outputs)


def chunk(finish: str | None = None, usage: Any = None, **delta: object) -> bytes:
    choices = [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"choices": choices, "usage": usage}).encode() + b"\n\n"


def called(index: int, id: str | None, name: str | None, arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": id, "function": function}


def used(prompt: int, output: int, cached: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def read(events: bytes) -> list[dict[str, Any]]:
    found = [each.split(b"\n")[1] for each in events.split(b"\n\n")[:-1]]
    return [json.loads(each.removeprefix(b"data: ")) for each in found]


def ended(made: TurnComposer) -> ChatAnswer:
    answer = made.asked()
    made.close_answer()
    return answer


def three_rounds(made: TurnComposer) -> bytes:
    """Code, then a tool of an MCP server, then the answer with the file that was made."""
    written = made.events(
        chunk(reasoning="Hm.")
        + chunk(tool_calls=[called(0, "c1", "python", CODE[:9])])
        + chunk(tool_calls=[called(0, None, None, CODE[9:])])
        + chunk(finish="tool_calls", usage=used(100, 10, 0))
    )
    assert ended(made).calls == [AskedCall("c1", "python", CODE)]
    opened = made.begin_code_call("cntr_1", "print(6*7)")
    logs = [{"type": "logs", "logs": "42\n"}]
    made.end_code_call(opened, ModelCall("c1", "python", CODE, "42\n", 1), logs, is_failed=False)
    written += made.written()
    written += made.events(chunk(tool_calls=[called(0, "c2", "docs__find", '{"q":"x"}')]))
    written += made.events(chunk(finish="tool_calls", usage=used(120, 5, 96)))
    [asked] = ended(made).calls
    opened = made.begin_mcp_call(asked, "docs", "find", None)
    made.end_mcp_call(
        opened, ModelCall("c2", "docs__find", asked.arguments, "found", 2), "found", None
    )
    written += made.written()
    written += made.events(chunk(content="It is 42.") + chunk(finish="stop"))
    written += made.events(chunk(usage=used(140, 7, 112)))
    made.cite([CITED])
    assert ended(made).calls == []
    return written + made.end()


def test_a_turn_is_one_stream_with_the_events_that_clients_know() -> None:
    made = composer()
    events = read(three_rounds(made))
    assert [event["type"].removeprefix("response.") for event in events] == [
        *("created", "in_progress"),
        *("output_item.added", "reasoning_text.delta", "reasoning_text.done", "output_item.done"),
        *("output_item.added", "code_interpreter_call.in_progress"),
        *("code_interpreter_call_code.delta", "code_interpreter_call_code.done"),
        *("code_interpreter_call.interpreting", "code_interpreter_call.completed"),
        "output_item.done",
        *("output_item.added", "mcp_call.in_progress", "mcp_call_arguments.delta"),
        *("mcp_call_arguments.done", "mcp_call.completed", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta"),
        *("output_text.annotation.added", "output_text.done", "content_part.done"),
        *("output_item.done", "completed"),
    ]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    added = [event for event in events if event["type"] == "response.output_item.added"]
    assert [event["output_index"] for event in added] == [0, 1, 2, 3]
    assert [event["item"]["id"].split("_")[0] for event in added] == ["rs", "ci", "mcp", "msg"]
    assert added[1]["item"]["code"] == ""
    assert added[1]["item"]["outputs"] is None
    last = events[-1]["response"]
    assert last["usage"]["input_tokens"] == 360
    assert last["usage"]["input_tokens_details"]["cached_tokens"] == 208
    assert last["usage"]["total_tokens"] == 382
    assert last["output"][1]["outputs"] == [{"type": "logs", "logs": "42\n"}]
    assert last["output"][3]["content"][0]["annotations"] == [CITED]
    assert "penstock" not in json.dumps(events)


def test_every_way_to_cut_the_chunks_gives_the_same_response() -> None:
    whole = chunk(reasoning="Hm.") + chunk(tool_calls=[called(0, "c1", "python", CODE)])
    expected = composer()
    expected.events(whole)
    answer = ended(expected)
    for at in [at + 2 for at in range(len(whole)) if whole.startswith(b"\n\n", at)]:
        cut = composer()
        cut.events(whole[:at])
        cut.events(whole[at:])
        assert ended(cut) == answer
        assert cut.response["output"] == expected.response["output"]


def test_what_is_printed_is_shown_only_to_those_who_ask() -> None:
    made = composer(has_outputs=False)
    assert read(three_rounds(made))[-1]["response"]["output"][1]["outputs"] is None
    stored = made.stored()
    assert public_response(stored)["output"][1]["outputs"] is None
    shown = public_response(stored, has_outputs=True)
    assert shown["output"][1]["outputs"] == [{"type": "logs", "logs": "42\n"}]


def test_a_later_prompt_repeats_each_round_as_the_model_wrote_it() -> None:
    made = composer()
    three_rounds(made)
    output = made.stored()["output"]
    messages = render([output, [{"role": "user", "content": "And?"}]])
    assert messages == [
        {
            "role": "assistant",
            "reasoning": "Hm.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "python", "arguments": CODE}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "42\n"},
        {
            "role": "assistant",
            "tool_calls": [
                {
                    "id": "c2",
                    "type": "function",
                    "function": {"name": "docs__find", "arguments": '{"q":"x"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c2", "content": "found"},
        {"role": "assistant", "content": "It is 42."},
        {"role": "user", "content": "And?"},
    ]
    # The rounds one by one are the same messages: each prompt of a turn is a prefix of the next.
    apart = [*render([output[:2]]), *render([output[2:3]]), *render([output[3:]])]
    assert apart == messages[:-1]


def test_calls_of_one_answer_are_one_message() -> None:
    made = composer()
    made.events(
        chunk(content="Both.")
        + chunk(tool_calls=[called(0, "c1", "python", CODE), called(1, "c2", "look", "{}")])
        + chunk(tool_calls=[called(2, "c3", "python", CODE)], finish="tool_calls")
    )
    answer = ended(made)
    assert [call.id for call in answer.calls] == ["c1", "c3"]
    assert answer.has_client_calls
    for call in answer.calls:
        opened = made.begin_code_call("cntr_1", "print(6*7)")
        told = ModelCall(call.id, call.name, call.arguments, "42\n", made.round)
        made.end_code_call(opened, told, [], is_failed=False)
    made.complete()
    assert made.response["status"] == "completed"
    first, *outputs = render([made.stored()["output"]])
    assert [call["id"] for call in first["tool_calls"]] == ["c2", "c1", "c3"]
    assert [message["tool_call_id"] for message in outputs] == ["c1", "c3"]


@pytest.mark.parametrize("how", ["fail", "cancel"])
def test_every_item_that_was_begun_is_ended(how: str) -> None:
    made = composer()
    made.events(chunk(tool_calls=[called(0, "c1", "python", CODE)], finish="tool_calls"))
    ended(made)
    made.begin_code_call("cntr_1", "print(6*7)")
    made.written()
    events = read(made.fail(GONE) if how == "fail" else made.cancel())
    assert [event["type"] for event in events] == [
        "response.output_item.done",
        "response.failed" if how == "fail" else "response.incomplete",
    ]
    assert events[0]["item"]["status"] == "incomplete"


def test_an_answer_that_was_cut_is_incomplete() -> None:
    made = composer()
    made.events(chunk(content="It i") + chunk(finish="length"))
    assert ended(made).finish == "length"
    made.complete()
    assert made.response["status"] == "incomplete"
    assert made.response["output"][0]["status"] == "incomplete"


def test_a_clients_call_counts_also_if_text_comes_after_it() -> None:
    turn = composer()
    turn.events(chunk(tool_calls=[called(0, "a", "theirs", "{}")]))
    turn.events(chunk(content="and"))
    turn.events(chunk("tool_calls", tool_calls=[called(1, "b", "python", CODE)]))
    assert turn.asked() == ChatAnswer([AskedCall("b", "python", CODE)], True, "tool_calls")
    turn.close_answer()
    turn.events(chunk("stop", content="done"))
    assert not turn.asked().has_client_calls
