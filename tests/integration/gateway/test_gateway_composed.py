"""Responses composed of chat answers: whole, streamed, with tools, cut, refused, and metered."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.responses import Response
from tests.integration.cells.batch_cell import sdk
from tests.integration.cells.gateway_cell import CHAT, COMPOSED, Cell, CellFactory, prompt
from tests.integration.cells.ledger_rows import rows_of
from tests.integration.cells.named_streams import named_events

from penstock.metering import usd
from penstock.testing import ScriptedEngine

_V1 = "/v1/responses"
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
Body = dict[str, Any]


@pytest.fixture(scope="module")
def composing(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open({"metering.drain_seconds": 0.05}) as cell:
        yield cell, cell.set_up(COMPOSED, CHAT)


@pytest.fixture
def cell(composing: tuple[Cell, ScriptedEngine]) -> Cell:
    return composing[0]


@pytest.fixture
def engine(composing: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return composing[1]


@pytest.fixture
def client(cell: Cell) -> openai.OpenAI:
    return sdk(cell)


def ask(script: Body | None = None, text: str = "hello", **fields: object) -> Body:
    return {"model": COMPOSED, "input": prompt(script, text)[0]["content"], **fields}


def sent(engine: ScriptedEngine) -> Body:
    """The body that the engine got last."""
    last = engine.state().last_request
    assert last is not None
    body: Body = json.loads(last["body"])
    return body


def test_answer_is_a_response_of_a_chat_request(cell: Cell, engine: ScriptedEngine) -> None:
    answer = cell.post(_V1, ask(text="hello again " * 50, instructions="Be brief."))
    chat = sent(engine)
    assert [message["role"] for message in chat["messages"]] == ["system", "user"]
    assert not {"input", "instructions", "store"} & chat.keys()
    response = Response.model_validate(answer.json())
    request_id = answer.headers["x-request-id"]
    assert response.id == f"resp_{request_id.replace('-', '')}"
    assert (response.status, response.instructions, response.model) == (
        "completed",
        "Be brief.",
        COMPOSED,
    )
    assert response.output_text
    (row,) = rows_of(cell, request_id)
    assert response.usage is not None
    assert row["prompt_tokens"] == response.usage.input_tokens
    assert row["output_tokens"] == response.usage.output_tokens
    assert answer.headers["x-penstock-cost-usd"] == usd(row["charge_nanousd"])


def test_sdk_streams_reasoning_and_text(client: openai.OpenAI) -> None:
    asked = ask({"reasoning": "Let me see.", "tokens": 20})
    with client.responses.stream(**asked) as stream:
        names = [event.type for event in stream]
        final = stream.get_final_response()
    assert names[:2] == ["response.created", "response.in_progress"]
    assert names[-1] == "response.completed"
    assert [item.type for item in final.output] == ["reasoning", "message"]
    assert final.output_text
    assert final.usage is not None
    assert final.usage.output_tokens >= 20


def test_conversation_with_a_tool_is_rendered_as_chat(
    client: openai.OpenAI, engine: ScriptedEngine
) -> None:
    question: Any = {"role": "user", "content": "What is there?"}
    tools: Any = [LOOK]
    with client.responses.stream(
        model=COMPOSED, input=[question], tools=tools, tool_choice="required"
    ) as stream:
        list(stream)
        first = stream.get_final_response()
    (call,) = first.output
    assert call.type == "function_call"
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "A door."}
    items: Any = [question, call.model_dump(), output]
    second = client.responses.create(model=COMPOSED, input=items, tools=tools)
    assert second.output_text
    chat = sent(engine)
    roles = [message["role"] for message in chat["messages"]]
    assert roles == ["user", "assistant", "tool"]
    assert chat["messages"][1]["tool_calls"][0]["id"] == call.call_id
    assert chat["messages"][2] == {
        "role": "tool",
        "tool_call_id": call.call_id,
        "content": "A door.",
    }
    assert chat["tools"][0]["function"]["name"] == "look"


def test_stream_that_is_cut_fails_with_what_was_counted(cell: Cell) -> None:
    stream = cell.post(_V1, ask({"tokens": 30, "cut_after": 10}, stream=True))
    body, done = stream.text[: -len("data: [DONE]\n\n")], stream.text[-len("data: [DONE]\n\n") :]
    assert done == "data: [DONE]\n\n"
    events = named_events(body)
    assert [event.data["sequence_number"] for event in events] == list(range(len(events)))
    last = events[-1].data["response"]
    assert (events[-1].name, last["status"]) == ("response.failed", "failed")
    assert last["error"]["code"] == "engine_lost"
    assert last["output"][0]["status"] == "incomplete"
    (row,) = rows_of(cell, stream.headers["x-request-id"])
    assert 0 < last["usage"]["output_tokens"] == row["output_tokens"]


def test_cost_comes_before_the_end_and_in_the_usage(cell: Cell) -> None:
    headers = {"x-penstock-cost": "1"}
    stream = cell.post(_V1, ask(stream=True), headers=headers)
    (row,) = rows_of(cell, stream.headers["x-request-id"])
    cost = f": cost-usd {usd(row['charge_nanousd'])}\n\nevent: response.completed\n"
    assert cost in stream.text
    answer = cell.post(_V1, ask(), headers={"x-penstock-cost": "usage"})
    assert answer.json()["usage"]["cost"] > 0
    stream = cell.post(_V1, ask(stream=True), headers={"x-penstock-cost": "usage"})
    last = named_events(stream.text[: -len("data: [DONE]\n\n")])[-1]
    assert last.data["response"]["usage"]["cost"] > 0


def test_limit_on_output_makes_it_incomplete(client: openai.OpenAI) -> None:
    response = client.responses.create(**ask({"tokens": 50}), max_output_tokens=5)
    assert response.status == "incomplete"
    assert response.incomplete_details is not None
    assert response.incomplete_details.reason == "max_output_tokens"


@pytest.mark.parametrize("model", [COMPOSED, CHAT])
def test_compacted_conversation_goes_on(
    cell: Cell, client: openai.OpenAI, engine: ScriptedEngine, model: str
) -> None:
    talk: Any = [
        {"role": "user", "content": "Tell me."},
        {"role": "assistant", "content": "A long tale."},
        {"role": "user", "content": [{"type": "input_text", "text": "And then?"}]},
    ]
    engine.control(sentence="They spoke of water.")
    answer = client.responses.with_raw_response.compact(model=model, input=talk)
    engine.control()
    compacted = answer.parse()
    assert compacted.object == "response.compaction"
    assert [item.type for item in compacted.output] == ["message", "message", "compaction"]
    assert sent(engine)["messages"][-1]["content"].startswith("Summarise the conversation above")
    (row,) = rows_of(cell, answer.headers["x-request-id"])
    assert row["charge_nanousd"] > 0
    assert compacted.usage.output_tokens == row["output_tokens"]

    items: Any = [item.model_dump(exclude_none=True, warnings=False) for item in compacted.output]
    items.append({"role": "user", "content": "Go on."})
    assert client.responses.create(model=model, input=items).output_text
    roles = [message["role"] for message in sent(engine)["messages"]]
    assert roles == ["user", "user", "system", "user"]
    assert "They spoke of water." in sent(engine)["messages"][2]["content"]


def test_compaction_of_another_account_or_changed_is_refused(
    cell: Cell, client: openai.OpenAI
) -> None:
    compacted = client.responses.compact(model=COMPOSED, input="Tell me.")
    item = compacted.output[-1].model_dump(exclude_none=True)
    _, _, key = cell.add_account("second")
    content = item["encrypted_content"]
    for changed, by in ((content, key), (content[:-1] + "z", cell.key), ("gAAAA", cell.key)):
        answer = cell.client.post(
            f"{cell.gateway.url}{_V1}",
            json={"model": COMPOSED, "input": [{**item, "encrypted_content": changed}]},
            headers={"authorization": f"Bearer {by}"},
        )
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input.0")
    streamed = cell.post(f"{_V1}/compact", ask(stream=True))
    assert (streamed.status_code, streamed.json()["error"]["param"]) == (400, "stream")


@pytest.mark.parametrize("model", [COMPOSED, CHAT])
def test_tokens_of_a_prompt_are_counted_by_the_engine(client: openai.OpenAI, model: str) -> None:
    asked: Any = {"model": model, "input": "count me " * 5000, "instructions": "Be brief."}
    counted = client.responses.input_tokens.count(**asked)
    assert counted.object == "response.input_tokens"
    if model == COMPOSED:
        usage = client.responses.create(**asked).usage
        assert usage is not None
        assert counted.input_tokens == usage.input_tokens
    else:
        assert counted.input_tokens > 5000


def test_prompt_of_unknown_items_is_not_counted(cell: Cell) -> None:
    body = {"model": COMPOSED, "input": [{"type": "web_search_call"}]}
    answer = cell.post(f"{_V1}/input_tokens", body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "input.0")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": [{"type": "web_search_call"}]}, "input.0"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input.0.content.0"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format"),
    ],
)
def test_what_is_not_served_is_refused(cell: Cell, fields: Body, param: str) -> None:
    answer = cell.post(_V1, {"model": COMPOSED, "input": "hi", **fields})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
