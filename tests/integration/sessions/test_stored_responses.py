"""Stored responses: chained, shown, referred to, deleted, and never another account's."""

from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.responses import Response
from tests.integration.cells.batch_cell import sdk
from tests.integration.cells.gateway_answers import check_openai
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.ledger_rows import rows_of
from tests.integration.cells.stored_cell import (
    STORING,
    V1,
    answered,
    ask,
    count_rows,
    messages_sent,
)
from typer.testing import CliRunner

from penstock.cli.commands import app
from penstock.testing import ScriptedEngine

LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
REPORTS = ("response.created", "response.in_progress", "response.completed")
Body = dict[str, Any]


@pytest.fixture(scope="module")
def storing(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open(STORING) as cell:
        yield cell, cell.set_up(CHAT)


@pytest.fixture
def cell(storing: tuple[Cell, ScriptedEngine]) -> Cell:
    return storing[0]


@pytest.fixture
def engine(storing: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return storing[1]


@pytest.fixture
def client(cell: Cell) -> openai.OpenAI:
    return sdk(cell)


def test_answer_is_found_by_its_id(cell: Cell) -> None:
    answer = cell.post(V1, ask(instructions="Be brief.", metadata={"task": "a"}))
    response = Response.model_validate(answer.json())
    assert (response.status, answer.json()["store"]) == ("completed", True)
    assert cell.get(f"{V1}/{response.id}").json() == answer.json()
    assert cell.get(cell.path(f"v1/responses/{response.id}")).json() == answer.json()
    (row,) = rows_of(cell, answer.headers["x-request-id"])
    assert response.usage is not None
    assert row["prompt_tokens"] == response.usage.input_tokens


def test_stream_is_found_by_its_id(client: openai.OpenAI) -> None:
    with client.responses.stream(**ask({"reasoning": "Let me see.", "tokens": 20})) as stream:
        reports: list[Any] = [event for event in stream if event.type in REPORTS]
        final = stream.get_final_response()
    assert {report.response.id for report in reports} == {final.id}
    found = client.responses.retrieve(final.id)
    assert found.output_text == final.output_text
    assert [item.type for item in found.output] == ["reasoning", "message"]
    assert found.usage == final.usage


@pytest.mark.parametrize("is_stream", [False, True])
def test_chain_is_found_the_moment_its_response_completes(
    client: openai.OpenAI, is_stream: bool
) -> None:
    """However soon the next request comes: both ways together 500 times."""
    previous: str | None = None
    for turn in range(250):
        if turn % 10 == 0:
            previous = None
        body: Any = ask({"tokens": 2}, text=f"turn {turn}", previous_response_id=previous)
        if is_stream:
            for event in client.responses.create(**body, stream=True):
                if event.type == "response.completed":
                    previous = event.response.id
        else:
            previous = client.responses.create(**body).id


def test_messages_of_a_turn_begin_those_of_the_next(cell: Cell, engine: ScriptedEngine) -> None:
    inputs: list[Any] = [
        "a text",
        [{"role": "user", "content": [{"type": "input_text", "text": "parts"}]}],
        [
            {"role": "developer", "content": "Be kind."},
            {"type": "message", "role": "user", "content": "two items"},
        ],
        [
            {"role": "user", "content": "earlier"},
            {"role": "assistant", "content": "an answer"},
            {"role": "user", "content": "again"},
        ],
    ]
    before: list[Body] = []
    previous: str | None = None
    for given in inputs:
        body = {"model": CHAT, "input": given, "previous_response_id": previous}
        previous = answered(cell, body)["id"]
        sent = messages_sent(engine)
        assert sent[: len(before)] == before
        assert len(sent) > len(before)
        before = sent


def test_chain_with_tool_rounds_has_all_calls_and_outputs(
    client: openai.OpenAI, engine: ScriptedEngine
) -> None:
    tools: Any = [LOOK]
    given: Any = "What is there?"
    previous: str | None = None
    for number in range(5):
        made = client.responses.create(
            model=CHAT,
            input=given,
            tools=tools,
            tool_choice="required",
            previous_response_id=previous,
        )
        (call,) = (item for item in made.output if item.type == "function_call")
        given = [
            {"type": "function_call_output", "call_id": call.call_id, "output": f"door {number}"}
        ]
        previous = made.id
    last = client.responses.create(
        model=CHAT, input=given, tools=tools, previous_response_id=previous
    )
    assert last.output_text
    sent = messages_sent(engine)
    roles = [message["role"] for message in sent]
    assert roles == ["user", *(["assistant", "tool"] * 5)]
    outputs = [message["content"] for message in sent if message["role"] == "tool"]
    assert outputs == [f"door {number}" for number in range(5)]


def test_call_without_its_output_is_refused(cell: Cell, engine: ScriptedEngine) -> None:
    made = answered(cell, ask(tools=[LOOK], tool_choice="required"))
    (call,) = made["output"]
    before = engine.state().requests
    refused = cell.post(V1, ask(previous_response_id=made["id"]))
    check_openai(refused, 400, "missing_tool_output")
    assert call["call_id"] in refused.json()["error"]["message"]
    assert engine.state().requests == before


def test_instructions_are_not_carried_over(cell: Cell, engine: ScriptedEngine) -> None:
    first = answered(cell, ask(instructions="Be brief."))
    answered(cell, ask(previous_response_id=first["id"]))
    assert [message["role"] for message in messages_sent(engine)] == ["user", "assistant", "user"]


def test_input_items_are_listed_page_by_page(client: openai.OpenAI) -> None:
    items: Any = [{"role": "user", "content": f"number {number}"} for number in range(5)]
    made = client.responses.create(model=CHAT, input=items)
    newest = client.responses.input_items.list(made.id, limit=2)
    assert [_text(item) for item in newest.data] == ["number 4", "number 3"]
    assert newest.has_more
    everything = [_text(item) for item in client.responses.input_items.list(made.id, limit=2)]
    assert everything == [f"number {number}" for number in reversed(range(5))]
    oldest = client.responses.input_items.list(made.id, order="asc")
    assert [_text(item) for item in oldest.data] == [f"number {number}" for number in range(5)]
    with pytest.raises(openai.BadRequestError):
        client.responses.input_items.list(made.id, after="msg_1")


def _text(item: Any) -> str:
    text: str = item.content[0].text
    return text


def test_references_become_what_they_refer_to(cell: Cell, engine: ScriptedEngine) -> None:
    first = answered(cell, ask({"reasoning": "Hm.", "tokens": 5}))
    sent = cell.get(f"{V1}/{first['id']}/input_items").json()["data"]
    ids = [item["id"] for item in [*sent, *first["output"]]]
    # As the AI SDK sends them; one twice, which counts once.
    references = [{"type": "item_reference", "id": id} for id in [*ids, ids[-1]]]
    again = answered(
        cell, {"model": CHAT, "input": [*references, {"role": "user", "content": "And now?"}]}
    )
    messages = messages_sent(engine)
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert messages[1]["reasoning"]
    # Also without storing anything, and from a response that has references itself.
    last = [{"id": id} for id in ids]
    answered(cell, {"model": CHAT, "input": [*last, *references[:1]], "store": True})
    assert cell.get(f"{V1}/{again['id']}/input_items").json()["data"][-1]["id"] == ids[0]


@pytest.mark.parametrize("id", ["msg_1", "msg_0198ffffffff7fffbfffffffffffffffo0"])
def test_unknown_references_are_refused(cell: Cell, id: str) -> None:
    refused = cell.post(V1, {"model": CHAT, "input": [{"type": "item_reference", "id": id}]})
    check_openai(refused, 404, "not_found")
    assert refused.json()["error"]["param"] == "input.0"


def test_deleted_response_breaks_its_chain(client: openai.OpenAI) -> None:
    made = [client.responses.create(**ask())]
    for _ in range(2):
        made.append(client.responses.create(**ask(previous_response_id=made[-1].id)))
    client.responses.delete(made[1].id)
    for lost in (made[1].id, made[2].id):
        with pytest.raises(openai.NotFoundError) as refused:
            client.responses.create(**ask(previous_response_id=lost))
        assert refused.value.code == "previous_response_not_found"
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made[1].id)
    with pytest.raises(openai.NotFoundError):
        client.responses.delete(made[1].id)
    assert client.responses.retrieve(made[0].id).id == made[0].id


def test_nothing_is_stored_that_says_so(cell: Cell) -> None:
    before = count_rows(cell, "responses")
    first = answered(cell, ask(store=False))
    assert cell.get(f"{V1}/{first['id']}").status_code == 404
    kept = answered(cell, ask())
    # It may go on from what is stored without being stored itself.
    again = answered(cell, ask(store=False, previous_response_id=kept["id"]))
    assert again["store"] is False
    assert again["previous_response_id"] == kept["id"]
    assert count_rows(cell, "responses") == before + 1


def test_account_that_stores_nothing(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    account, _, key = cell.add_account("private")
    monkeypatch.setenv("PENSTOCK_STORE_DSN", cell.dsn)
    command = ["account", "set", account, "--storage", "never"]
    assert CliRunner().invoke(app, command).exit_code == 0
    headers = {"authorization": f"Bearer {key}"}
    # Gateways notice it within 5 s.
    eventually(lambda: cell.post(V1, ask(store=True), headers=headers).status_code == 400)
    before = count_rows(cell, "responses")
    assert cell.post(V1, ask(), headers=headers).status_code == 200
    for fields in ({"store": True}, {"previous_response_id": "resp_1"}):
        refused = cell.post(V1, ask(**fields), headers=headers)
        check_openai(refused, 400, "stored_state_unavailable")
        assert "this account" in refused.json()["error"]["message"]
    assert count_rows(cell, "responses") == before


def test_ids_of_another_account_are_as_unknown_as_any(cell: Cell) -> None:
    _, _, key = cell.add_account("other")
    headers = {"authorization": f"Bearer {key}"}
    ids = [answered(cell, ask())["id"] for _ in range(20)]
    bodies = set()
    for id in [*ids, "resp_0198ffffffff7fffbfffffffffffffff", "resp_1", "x"]:
        for method, path in (
            ("GET", f"{V1}/{id}"),
            ("DELETE", f"{V1}/{id}"),
            ("GET", f"{V1}/{id}/input_items"),
        ):
            seen = cell.client.request(method, cell.gateway.url + path, headers=headers)
            assert seen.status_code == 404
            bodies.add(seen.json()["error"]["message"])
    assert len(bodies) == 1
    chained = {
        cell.post(V1, ask(previous_response_id=id), headers=headers).json()["error"]["message"]
        for id in [*ids, "resp_0198ffffffff7fffbfffffffffffffff", "resp_1"]
    }
    assert len(chained) == 1
    item = cell.get(f"{V1}/{ids[0]}").json()["output"][0]["id"]
    reference = {"type": "item_reference", "id": item}
    check_openai(
        cell.post(V1, {"model": CHAT, "input": [reference]}, headers=headers), 404, "not_found"
    )
    assert all(cell.get(f"{V1}/{id}").status_code == 200 for id in ids)


def test_tokens_of_a_chain_are_counted(cell: Cell) -> None:
    first = answered(cell, ask(text="word " * 100))
    asked = ask(previous_response_id=first["id"])
    counted = cell.post(f"{V1}/input_tokens", asked).json()["input_tokens"]
    assert counted == answered(cell, asked)["usage"]["input_tokens"]


def test_chain_is_compacted(cell: Cell, engine: ScriptedEngine) -> None:
    first = answered(cell, ask(text="the first"))
    compact = cell.post(f"{V1}/compact", ask(text="x", previous_response_id=first["id"])).json()
    texts = [item["content"][0]["text"] for item in compact["output"][:-1]]
    assert texts == ["the first", "x"]
    answered(cell, {"model": CHAT, "input": compact["output"]})
    assert "Summary" in messages_sent(engine)[-1]["content"]


def test_chain_is_compacted_and_counted_without_a_new_input(cell: Cell) -> None:
    """As openai-agents' compaction session asks for it."""
    first = answered(cell, ask(text="the first"))
    body = {"model": CHAT, "previous_response_id": first["id"]}
    compact = cell.post(f"{V1}/compact", body).json()
    assert [item["type"] for item in compact["output"]] == ["message", "compaction"]
    assert cell.post(f"{V1}/input_tokens", {**body, "input": []}).json()["input_tokens"]
    assert answered(cell, body)["status"] == "completed"
    talk = cell.post("/v1/conversations", {"items": compact["output"]})
    assert talk.status_code == 200, talk.text
    answered(cell, ask(conversation=talk.json()["id"]))
    check_openai(cell.post(V1, {"model": CHAT}), 400, "invalid_request")


def test_large_parts_are_kept_as_objects(cell: Cell) -> None:
    text = "a long text " * 8000
    first = answered(cell, ask(text=text))
    assert (
        cell.get(f"{V1}/{first['id']}/input_items").json()["data"][0]["content"][0]["text"] == text
    )
    answered(cell, ask(previous_response_id=first["id"]))
    gone = cell.client.delete(f"{cell.gateway.url}{V1}/{first['id']}", headers=cell.authorization())
    assert gone.json() == {"id": first["id"], "object": "response", "deleted": True}
