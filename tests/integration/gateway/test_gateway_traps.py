"""The traps of the wire, by their numbers (wire.md, section 0): what clients trip over first."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from tests.integration.cells.gateway_answers import check_envelope
from tests.integration.cells.gateway_cell import (
    ABSENT,
    CHAT,
    NATIVE,
    THINKER,
    Cell,
    chat_body,
    events_of,
    prompt,
)

from penstock.testing import ScriptedEngine

_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def _received(engine: ScriptedEngine) -> dict[str, Any]:
    last = engine.state().last_request
    assert last is not None
    body: dict[str, Any] = json.loads(last["body"])
    return body


@pytest.mark.parametrize(
    "spelling", [CHAT, quote(CHAT, safe="@"), quote(CHAT, safe=""), CHAT.replace("@", "%40")]
)
def test_trap_1_model_with_raw_and_encoded_slashes(cell: Cell, spelling: str) -> None:
    assert cell.run_model(spelling, {"messages": prompt()}).json()["success"] is True


def test_trap_2_run_is_enveloped_and_chat_is_bare(cell: Cell) -> None:
    body = {"messages": prompt()}
    run = cell.run_model(CHAT, body).json()
    assert list(run) == ["result", "success", "errors", "messages"]
    assert (run["success"], run["errors"], run["messages"]) == (True, [], [])
    assert run["result"]["object"] == "chat.completion"
    named = cell.post(cell.path("run"), {"model": CHAT, "input": body}).json()
    assert list(named) == list(run)
    bare = cell.post(cell.path("v1/chat/completions"), {"model": CHAT, **body}).json()
    assert bare["object"] == "chat.completion"
    assert cell.chat({"model": CHAT, **body}).json()["object"] == "chat.completion"


def test_trap_2_streams_are_never_enveloped(cell: Cell) -> None:
    body = {"messages": prompt(), "stream": True}
    for path in (f"run/{CHAT}", "v1/chat/completions"):
        answer = cell.post(cell.path(path), {"model": CHAT, **body})
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = events_of(answer.text)
        assert json.loads(events[0])["object"] == "chat.completion.chunk"


def test_trap_2_errors_of_both_workers_surfaces_suit_both_kinds_of_client(cell: Cell) -> None:
    check_envelope(cell.run_model("nobody", {"prompt": "x"}), 400, 5007)
    check_envelope(cell.post(cell.path("v1/chat/completions"), chat_body("nobody")), 400, 5007)


def test_trap_3_two_output_families(cell: Cell) -> None:
    body = {"messages": prompt()}
    openai = cell.run_model(CHAT, body).json()["result"]
    assert openai["choices"][0]["message"]["content"]
    native = cell.run_model(NATIVE, body).json()["result"]
    assert native.keys() == {"response", "usage"}
    assert native["response"] == openai["choices"][0]["message"]["content"]
    # On the OpenAI endpoints every model answers in OpenAI's shape.
    assert "choices" in cell.chat(chat_body(NATIVE)).json()
    assert "choices" in cell.post(cell.path("v1/chat/completions"), chat_body(NATIVE)).json()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (_SCHEMA, {"name": "response", "schema": _SCHEMA}),
        ({"name": "n", "schema": _SCHEMA}, {"name": "n", "schema": _SCHEMA}),
        (
            {"name": "n", "schema": _SCHEMA, "strict": True},
            {"name": "n", "schema": _SCHEMA, "strict": True},
        ),
        ({**_SCHEMA, "title": "t"}, {"name": "response", "schema": {**_SCHEMA, "title": "t"}}),
    ],
)
def test_trap_4_json_schema_bare_and_wrapped(
    cell: Cell, engine: ScriptedEngine, given: dict[str, Any], wanted: dict[str, Any]
) -> None:
    response_format = {"type": "json_schema", "json_schema": given}
    for path, body in (
        (cell.path(f"run/{CHAT}"), {"messages": prompt()}),
        ("/v1/chat/completions", chat_body()),
    ):
        answer = cell.post(path, {**body, "response_format": response_format})
        assert answer.status_code == 200
        sent = _received(engine)["response_format"]
        assert sent == {"type": "json_schema", "json_schema": wanted}


@pytest.mark.parametrize(
    ("model", "name", "other"),
    [(CHAT, "reasoning", "reasoning_content"), (THINKER, "reasoning_content", "reasoning")],
)
def test_trap_5_reasoning_has_the_name_that_clients_of_the_model_look_for(
    cell: Cell, model: str, name: str, other: str
) -> None:
    script = {"reasoning": "think first", "text": '"reasoning": done'}
    body = chat_body(model, script)
    for path in ("/v1/chat/completions", cell.path("v1/chat/completions")):
        message = cell.post(path, body).json()["choices"][0]["message"]
        assert (message[name], message["content"]) == ("think first", '"reasoning": done')
        assert other not in message
    events = events_of(cell.chat({**body, "stream": True}).text)[:-1]
    deltas = [json.loads(event)["choices"][0]["delta"] for event in events]
    assert "".join(delta.get(name) or "" for delta in deltas) == "think first"
    assert "".join(delta.get("content") or "" for delta in deltas) == '"reasoning": done'
    assert not any(other in delta for delta in deltas)
    run = cell.run_model(model, body).json()["result"]["choices"][0]["message"]
    assert run[name] == "think first"


def test_trap_5_either_spelling_of_reasoning_is_accepted(
    cell: Cell, engine: ScriptedEngine
) -> None:
    for name in ("reasoning", "reasoning_content"):
        said = {"role": "assistant", "content": "so", name: "because"}
        messages = [*prompt(), said, {"role": "user", "content": "go on"}]
        assert cell.chat({"model": CHAT, "messages": messages}).status_code == 200
        assert _received(engine)["messages"][1] == said


def test_trap_6_options_three_ways_are_no_business_of_the_engine(
    cell: Cell, engine: ScriptedEngine
) -> None:
    """That each way is obeyed when the model is busy is in test_gateway_capacity."""
    options = {"options": {"rejectIfBusy": True}}
    answer = cell.run_model(f"{CHAT}?rejectIfBusy=true&tags=a", {"messages": prompt(), **options})
    assert answer.status_code == 200
    assert "options" not in _received(engine)


def test_trap_6_queue_request_is_taken_two_ways_and_reaches_no_engine(
    cell: Cell, engine: ScriptedEngine
) -> None:
    """What becomes of it is in test_flex_doors_queue."""
    requests = engine.state().requests
    for path, extra in (
        (f"run/{CHAT}?queueRequest=true", {}),
        (f"run/{CHAT}", {"options": {"queueRequest": True}}),
    ):
        answer = cell.post(cell.path(path), {"messages": prompt(), **extra})
        assert answer.json()["result"]["status"] == "queued"
    assert engine.state().requests == requests


@pytest.mark.parametrize("content", [None, "", "absent"])
def test_trap_7_assistant_content_may_be_null_absent_or_empty(
    cell: Cell, engine: ScriptedEngine, content: str | None
) -> None:
    call = {
        "id": "functions.get_weather:0",
        "type": "function",
        "function": {"name": "look", "arguments": '{"a": 1}'},
    }
    said: dict[str, Any] = {"role": "assistant", "content": content, "tool_calls": [call]}
    if content == "absent":
        del said["content"]
    result = {"role": "tool", "tool_call_id": "functions.get_weather:0", "content": "12 degrees"}
    # The same id in two turns: Kimi counts from 0 again.
    messages = [*prompt(), said, result, said, result, {"role": "user", "content": "and now?"}]
    for body in ({"messages": messages, "tools": _TOOLS}, {"messages": messages}):
        assert cell.run_model(CHAT, body).status_code == 200
        assert _received(engine)["messages"] == messages


def test_trap_7_parallel_tool_calls_come_with_the_engines_ids(
    cell: Cell, engine: ScriptedEngine
) -> None:
    del engine
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("look", "listen")
    ]
    body = {"model": CHAT, "messages": prompt(text="CALL look CALL listen"), "tools": tools}
    choice = cell.chat(body).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    calls = choice["message"]["tool_calls"]
    assert [call["function"]["name"] for call in calls] == ["look", "listen"]
    assert all(call["id"].startswith("chatcmpl-tool-") for call in calls)


@pytest.mark.parametrize("kind", ["namespace", "web_search", "custom"])
def test_unknown_tool_types_are_the_engines_to_judge(cell: Cell, kind: str) -> None:
    """Codex sends such; an engine that does not know them says so, and that is a 400, not a 500."""
    tool = {"type": kind, "function": {"name": "look", "parameters": {}}, "name": "x"}
    answer = cell.chat({"model": CHAT, "messages": prompt(), "tools": [*_TOOLS, tool]})
    assert answer.status_code == 200
    refused = chat_body(script={"status": 400, "message": "unknown tool type"}, tools=[tool])
    assert cell.chat(refused).status_code == 400


def test_trap_8_status_code_and_retry_after(cell: Cell) -> None:
    answer = cell.run_model(ABSENT, {"prompt": "x"})
    check_envelope(answer, 503, 3040, retry=True, retry_after=True)
    assert isinstance(answer.json()["errors"][0]["code"], int)


@pytest.mark.parametrize("model", [CHAT, NATIVE])
def test_trap_9_a_stream_ends_with_a_finish_reason_and_done(cell: Cell, model: str) -> None:
    answer = cell.chat(chat_body(model, stream=True))
    events = events_of(answer.text)
    assert answer.text.endswith("data: [DONE]\n\n")
    assert json.loads(events[-2])["choices"][0]["finish_reason"] == "stop"
    native = cell.run_model(model, {"messages": prompt(), "stream": True}).text
    assert native.endswith("data: [DONE]\n\n")


def test_one_usage_chunk_is_sent_and_it_is_right(cell: Cell) -> None:
    """Workers AI sends usage twice, once wrong; a client that keeps the last one must be right."""
    body = chat_body(stream=True, stream_options={"include_usage": True})
    events = [json.loads(event) for event in events_of(cell.chat(body).text)[:-1]]
    usages = [event["usage"] for event in events if event.get("usage")]
    whole = cell.chat(chat_body()).json()["usage"]
    assert len(usages) == 1
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert usages[0][name] == whole[name]
