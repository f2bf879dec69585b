"""OpenAI's Responses through a whole gateway: stateless, metered, routed, refused and broken."""

import json
import re
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai
from tests.integration.cells.gateway_cell import (
    CHAT,
    PAIR,
    PLAIN,
    REPLIES,
    Cell,
    CellFactory,
    prompt,
)
from tests.integration.cells.ledger_rows import rows_of
from tests.integration.cells.named_streams import named_events
from tests.integration.cells.raw_client import RawClient, post_bytes
from tests.integration.cells.responses_requests import ask

from penstock.clock import new_id
from penstock.metering import usd
from penstock.testing import ScriptedEngine

_V1 = "/v1/responses"
_QUICK = {"metering.drain_seconds": 0.05, "ingress.keepalive_seconds": 0.2}
_TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
Body = dict[str, Any]


@pytest.fixture(scope="module")
def replying(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    """PAIR has two replicas on two engines, all others one on the first."""
    with cells.open(_QUICK) as cell:
        engine = cell.set_up(CHAT, PLAIN, REPLIES, PAIR)
        cell.enroll(cell.add_engine().url, PAIR)
        cell.wait_for_replicas(PAIR, 2)
        yield cell, engine


@pytest.fixture
def cell(replying: tuple[Cell, ScriptedEngine]) -> Iterator[Cell]:
    yield replying[0]
    replying[1].control()
    replying[0].wait_until_idle()


@pytest.fixture
def engine(replying: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return replying[1]


def sent(engine: ScriptedEngine) -> Body:
    """The body that the engine got last."""
    last = engine.state().last_request
    assert last is not None
    body = json.loads(last["body"])
    assert isinstance(body, dict)
    return body


def counted(usage: Body) -> tuple[int, int, int]:
    cached = usage["input_tokens_details"]["cached_tokens"]
    return usage["input_tokens"], usage["output_tokens"], cached


def counts(row: Body) -> tuple[int, int, int]:
    return row["prompt_tokens"], row["output_tokens"], row["cached_tokens"]


def test_answer_is_the_engines_and_its_usage_is_the_ledgers(cell: Cell) -> None:
    for _ in range(2):
        answer = cell.post(_V1, ask(text="hello again " * 50))
        response = answer.json()
        request_id = answer.headers["x-request-id"]
        assert (response["object"], response["status"]) == ("response", "completed")
        assert response["id"] == f"resp_{request_id}"
        assert response["output"][0]["content"][0]["text"]
        (row,) = rows_of(cell, request_id)
        assert counts(row) == counted(response["usage"])
        assert answer.headers["x-penstock-cost-usd"] == usd(row["charge_nanousd"])
    assert row["cached_tokens"] > 0


def test_stream_has_every_event_that_clients_insist_on(cell: Cell) -> None:
    stream = cell.post(_V1, ask(stream=True), headers={"x-penstock-cost": "1"})
    events = named_events(stream.text)
    assert [event.data["sequence_number"] for event in events] == list(range(len(events)))
    names = [event.name for event in events]
    assert names[:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert names[-2:] == ["response.output_item.done", "response.completed"]
    last = events[-1].data["response"]
    assert last["output"] == [events[-2].data["item"]]
    (row,) = rows_of(cell, stream.headers["x-request-id"])
    assert counts(row) == counted(last["usage"])
    assert row["charge_nanousd"] > 0
    cost = f": cost-usd {usd(row['charge_nanousd'])}\n\nevent: response.completed\n"
    assert cost in stream.text


def test_stream_is_byte_for_byte_the_engines(cell: Cell, engine: ScriptedEngine) -> None:
    body = ask({"tokens": 30, "split": 7}, text="a stream of its own", stream=True)
    # Twice, so that this and the engine's own find the same in the cache.
    for _ in range(2):
        through = cell.post(_V1, body)
    direct = cell.client.post(engine.url + _V1, json=sent(engine))

    def plain(text: str) -> str:
        text = text.replace(": keepalive\n\n", "")
        return re.sub(r'"(msg_\w+|created_at":\d+)', "", text)

    assert plain(through.text) == plain(direct.text)
    assert through.text.count("event: response.output_text.delta\n") > 20


def test_engine_gets_what_was_sent_and_what_is_ours(cell: Cell, engine: ScriptedEngine) -> None:
    cell.post(_V1, ask(temperature=0.5, client_metadata={"a": "b"}, instructions="Be brief."))
    got = sent(engine)
    assert got["store"] is False
    assert got["model"] == "scripted"
    assert got["max_output_tokens"] == 4096
    assert got["cache_salt"]
    assert (got["temperature"], got["client_metadata"]) == (0.5, {"a": "b"})
    assert "stream_options" not in got
    cell.post(_V1, ask(max_output_tokens=7, store=False, prompt_cache_key="k", user="u"))
    got = sent(engine)
    assert got["max_output_tokens"] == 7
    assert "prompt_cache_key" not in got
    assert got["session_id"]


def test_cost_cap_bounds_the_output(cell: Cell, engine: ScriptedEngine) -> None:
    answer = cell.post(_V1, ask(), headers={"x-penstock-max-cost-usd": "0.001"})
    assert answer.status_code == 200
    assert 0 < sent(engine)["max_output_tokens"] < 4096
    refused = cell.post(
        _V1, ask(max_output_tokens=4000), headers={"x-penstock-max-cost-usd": "0.001"}
    )
    check_openai(refused, 400, "max_cost_exceeded")


@pytest.mark.parametrize("is_stream", [False, True])
def test_tool_is_called_and_its_result_is_taken(cell: Cell, is_stream: bool) -> None:
    body = ask(text="CALL weather", tools=[_TOOL, {"type": "web_search"}], stream=is_stream)
    answer = cell.post(_V1, body)
    response = named_events(answer.text)[-1].data["response"] if is_stream else answer.json()
    (call,) = [item for item in response["output"] if item["type"] == "function_call"]
    assert call["name"] == "weather"
    json.loads(call["arguments"])
    given = {"type": "function_call_output", "call_id": call["call_id"], "output": "rain"}
    user = {"role": "user", "content": "CALL weather"}
    body["input"] = [user, *response["output"], given]
    body["stream"] = False
    second = cell.post(_V1, body).json()
    assert [item["type"] for item in second["output"]] == ["message"]


def test_tools_that_nobody_here_runs_do_not_reach_the_engine(
    cell: Cell, engine: ScriptedEngine
) -> None:
    own = {"type": "custom", "name": "shell"}
    spaces = {"type": "namespace", "name": "n", "description": "d", "tools": [_TOOL]}
    strange = [{"type": "web_search"}, {"type": "from_the_future", "x": [1]}]
    answer = cell.post(_V1, ask(tools=[_TOOL, *strange, own, spaces]))
    assert answer.status_code == 200, answer.text
    assert [tool["type"] for tool in sent(engine)["tools"]] == ["function", "custom", "namespace"]
    assert cell.post(_V1, ask(tools=strange)).status_code == 200
    assert "tools" not in sent(engine)


def test_structured_output_is_made(cell: Cell) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    }
    wanted = {"format": {"type": "json_schema", "name": "place", "schema": schema}}
    answer = cell.post(_V1, {**ask(), "text": wanted})
    text = answer.json()["output"][0]["content"][0]["text"]
    assert json.loads(text).keys() == {"city"}


def test_run_of_the_family_is_enveloped_and_chat_stays_chat(cell: Cell) -> None:
    whole = cell.run_model(REPLIES, {"input": "hello", "reasoning": {"effort": "low"}})
    assert whole.json()["success"] is True
    assert whole.json()["result"]["object"] == "response"
    stream = cell.run_model(REPLIES, {"input": "hello", "stream": True})
    assert named_events(stream.text)[-1].name == "response.completed"
    for asked in ({"messages": prompt()}, {"prompt": "hello"}):
        chat = cell.run_model(REPLIES, asked)
        assert chat.json()["result"]["object"] == "chat.completion"
    check_envelope(cell.run_model(REPLIES, {"input": "a", "messages": prompt()}), 400, 5006)
    bare = cell.post(cell.path("v1/responses"), {"model": REPLIES, "input": "hello"})
    assert bare.json()["object"] == "response"
    check_envelope(cell.run_model(CHAT, {"input": "hello"}), 400, 5006)


@pytest.mark.parametrize("fault", ["cut_after", "close_after"])
def test_broken_stream_ends_in_a_failed_response_and_is_counted(cell: Cell, fault: str) -> None:
    stream = cell.post(_V1, ask({"tokens": 20, fault: 8}, stream=True))
    assert stream.status_code == 200
    events = named_events(stream.text)
    assert [event.data["sequence_number"] for event in events] == list(range(len(events)))
    assert events[-1].name == "response.failed"
    response = events[-1].data["response"]
    assert (response["status"], response["error"]["code"]) == ("failed", "engine_lost")
    assert response["id"] == events[0].data["response"]["id"]
    (row,) = rows_of(cell, stream.headers["x-request-id"])
    made = [event.name for event in events].count("response.output_text.delta")
    assert (row["output_tokens"], row["charge_reason"]) == (made, "estimated")
    assert row["prompt_tokens"] > 0
    assert row["charge_nanousd"] > 0
    assert (row["outcome"], row["error"]) == ("failed", "engine_lost")
    assert row["first_token_ms"] < row["duration_ms"]


@pytest.mark.parametrize("script", [{"cut_after": 8}, {"cut_after": 1, "stall_before_head": 0.5}])
def test_openais_sdk_is_told_of_a_broken_stream(cell: Cell, script: Body) -> None:
    asked = ask({"tokens": 20, **script})["input"]
    url = f"{cell.gateway.url}/v1"
    with (
        openai.OpenAI(base_url=url, api_key=cell.key, max_retries=0) as client,
        client.responses.stream(model=CHAT, input=asked) as stream,
    ):
        last = list(stream)[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert str(last.response.error.code) == "engine_lost"


def test_client_that_leaves_is_counted_by_the_events_that_passed(cell: Cell) -> None:
    body = ask({"tokens": 500, "interval": 0.02}, stream=True)
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, body, cell.key))
        _, status, headers = client.read_head()
        assert status == 200
        client.read_until(b"response.output_text.delta")
    (row,) = rows_of(cell, headers["x-request-id"])
    assert 1 <= row["output_tokens"] < 500
    assert (row["outcome"], row["charge_reason"]) == ("client_left", "estimated")


def test_engine_that_breaks_before_the_model_speaks_is_replaced(
    cell: Cell, engine: ScriptedEngine
) -> None:
    # After `response.created` and `response.in_progress`, which no client has seen by then.
    engine.control(cut_after=2, times=1)
    attempts: list[int] = []
    while 2 not in attempts:
        assert len(attempts) < 20
        stream = cell.post(_V1, ask(text=new_id(), stream=True) | {"model": PAIR})
        names = [event.name for event in named_events(stream.text)]
        assert names[0] == "response.created"
        assert names.count("response.created") == 1
        assert names[-1] == "response.completed"
        attempts.append(cell.gateway.request_line(stream.headers["x-request-id"])["attempts"])


def test_stream_that_fails_before_the_model_speaks_is_a_whole_one(cell: Cell) -> None:
    stream = cell.post(_V1, ask({"cut_after": 1, "stall_before_head": 0.5}, stream=True))
    assert stream.text.startswith(": keepalive\n\n")
    events = named_events(stream.text)
    assert [event.name for event in events] == ["response.created", "response.failed"]
    ids = {event.data["response"]["id"] for event in events}
    assert ids == {f"resp_{stream.headers['x-request-id']}"}


def test_line_is_held_while_the_engine_reads(cell: Cell) -> None:
    stream = cell.post(_V1, ask({"stall_before_first": 0.7}, stream=True))
    assert stream.text.startswith(": keepalive\n\n")
    assert named_events(stream.text)[-1].name == "response.completed"


def test_session_is_the_header_or_the_cache_key(cell: Cell) -> None:
    places: list[tuple[dict[str, str], str]] = [({}, "codex-1"), ({"session-id": "own"}, "own")]
    for headers, session in places:
        answer = cell.post(_V1, ask(prompt_cache_key="codex-1"), headers=headers)
        (row,) = rows_of(cell, answer.headers["x-request-id"])
        assert row["session"] == session


def test_turns_of_a_conversation_stay_where_their_prefix_is(cell: Cell) -> None:
    item = {"role": "user", "content": f"{new_id()} a long story. " * 100}
    items: list[Body] = [item]
    replicas, cached = set(), 0
    for turn in range(5):
        answer = cell.post(_V1, {"model": PAIR, "input": items, "instructions": "Be brief."})
        (row,) = rows_of(cell, answer.headers["x-request-id"])
        replicas.add(row["replica"])
        if turn:
            assert row["cached_tokens"] > cached
        cached = row["cached_tokens"]
        items += [*answer.json()["output"], {"role": "user", "content": f"and then {turn} " * 40}]
    assert len(replicas) == 1


def test_long_input_goes_through_whole(cell: Cell, engine: ScriptedEngine) -> None:
    items = [{"role": "user", "content": f"{number} " * 1000} for number in range(40)]
    answer = cell.post(_V1, {"model": CHAT, "input": items, "max_output_tokens": 5})
    assert answer.status_code == 200, answer.text[:300]
    assert len(sent(engine)["input"]) == 40
