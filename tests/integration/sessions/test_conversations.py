"""Conversations: their items, one response at a time, and nothing of them without storing."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import psycopg
import pytest
from tests.integration.cells.batch_cell import sdk
from tests.integration.cells.gateway_answers import check_openai
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.leaving_callers import kill
from tests.integration.cells.raw_client import RawClient, post_bytes
from tests.integration.cells.stored_cell import (
    STORING,
    V1,
    answered,
    ask,
    count_rows,
    messages_sent,
)

from penstock.testing import ScriptedEngine

QUICK = {**STORING, "conversations.tenure_seconds": 1.0}
PATH = "/v1/conversations"
Body = dict[str, Any]


@pytest.fixture(scope="module")
def talking(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open(QUICK) as cell:
        yield cell, cell.set_up(CHAT)


@pytest.fixture
def cell(talking: tuple[Cell, ScriptedEngine]) -> Cell:
    return talking[0]


@pytest.fixture
def engine(talking: tuple[Cell, ScriptedEngine]) -> ScriptedEngine:
    return talking[1]


@pytest.fixture
def client(cell: Cell) -> openai.OpenAI:
    return sdk(cell)


def said(text: str) -> Any:
    return {"type": "message", "role": "user", "content": text}


def texts(client: openai.OpenAI, id: str) -> list[str]:
    items: Any = client.conversations.items.list(id, order="asc")
    return [item.content[0].text for item in items]


def test_items_are_added_listed_shown_and_deleted(client: openai.OpenAI) -> None:
    made = client.conversations.create(items=[said("a"), said("b")], metadata={"topic": "x"})
    assert client.conversations.retrieve(made.id) == made
    added = client.conversations.items.create(made.id, items=[said("c")])
    assert texts(client, made.id) == ["a", "b", "c"]
    newest: Any = client.conversations.items.list(made.id, limit=2)
    assert newest.has_more
    assert newest.data[0].id == added.data[0].id
    assert len(list(client.conversations.items.list(made.id, limit=1))) == 3
    one: Any = client.conversations.items.retrieve(newest.data[1].id, conversation_id=made.id)
    assert one.content[0].text == "b"
    assert client.conversations.items.delete(one.id, conversation_id=made.id).id == made.id
    assert texts(client, made.id) == ["a", "c"]
    with pytest.raises(openai.NotFoundError):
        client.conversations.items.retrieve(one.id, conversation_id=made.id)
    changed = client.conversations.update(made.id, metadata={"topic": "y"})
    assert changed.metadata == {"topic": "y"}
    assert client.conversations.delete(made.id).deleted
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(made.id)


def test_responses_go_on_and_are_appended(client: openai.OpenAI, engine: ScriptedEngine) -> None:
    made = client.conversations.create()
    before: list[Body] = []
    for turn in range(4):
        response = client.responses.create(**ask(text=f"turn {turn}", conversation=made.id))
        assert response.conversation is not None
        assert response.conversation.id == made.id
        sent = messages_sent(engine)
        assert sent[: len(before)] == before
        before = sent
    assert [message["role"] for message in before] == ["user", *(["assistant", "user"] * 3)]
    assert len(texts(client, made.id)) == 8
    stored = client.responses.retrieve(response.id)
    assert stored.output_text == texts(client, made.id)[-1]
    # An item that the caller adds is a message of its own.
    call: Any = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    output: Any = {"type": "function_call_output", "call_id": "c1", "output": "A door."}
    client.conversations.items.create(made.id, items=[call, output])
    client.responses.create(**ask(conversation={"id": made.id}))
    sent = messages_sent(engine)
    assert sent[: len(before)] == before
    assert [message["role"] for message in sent[len(before) :]] == [
        "assistant", "assistant", "tool", "user",
    ]  # fmt: skip


def test_one_response_at_a_time(cell: Cell, client: openai.OpenAI) -> None:
    made = client.conversations.create()
    with RawClient(cell.gateway.port) as first:
        body = ask({"tokens": 100, "interval": 0.03}, stream=True, conversation=made.id)
        first.send(post_bytes(V1, body, cell.key))
        first.read_until(b"event: response.output_text.delta")
        refused = cell.post(V1, ask(conversation=made.id))
        check_openai(refused, 409, "conversation_locked", retry=True, retry_after=True)
        # What stores nothing reads what is there.
        assert cell.post(V1, ask(conversation=made.id, store=False)).status_code == 200
        assert texts(client, made.id) == []
        # The tenure is renewed as long as the response is written.
        first.read_until(b"[DONE]")
    assert len(texts(client, made.id)) == 2
    answered(cell, ask(conversation=made.id))


def test_racing_responses_are_all_there_or_refused(cell: Cell, client: openai.OpenAI) -> None:
    made = client.conversations.create()
    gate = threading.Barrier(10)

    def send(number: int) -> int:
        gate.wait()
        answer = cell.post(V1, ask(text=f"from {number}", conversation=made.id))
        return number if answer.status_code == 200 else -answer.status_code

    with ThreadPoolExecutor(10) as pool:
        ends = [end for _ in range(5) for end in pool.map(send, range(10))]
    done = [end for end in ends if end >= 0]
    assert done
    assert {end for end in ends if end < 0} <= {-409}
    listed = texts(client, made.id)
    assert len(listed) == 2 * len(done)
    assert sorted(int(text.split()[-1]) for text in listed[::2]) == sorted(done)


def test_gateway_killed_while_it_writes_frees_the_conversation(cells: CellFactory) -> None:
    with cells.open(QUICK) as cell:
        cell.set_up(CHAT)
        made = sdk(cell).conversations.create()
        with RawClient(cell.gateway.port) as client:
            body = ask({"tokens": 2000, "interval": 0.03}, stream=True, conversation=made.id)
            client.send(post_bytes(V1, body, cell.key))
            client.read_until(b"event: response.output_text.delta")
            kill(cell)
        with cell.gateway:
            eventually(lambda: cell.post(V1, ask(conversation=made.id)).status_code == 200)
            assert len(texts(sdk(cell), made.id)) == 2


@pytest.mark.parametrize(
    "script", [{"status": 500}, {"tokens": 30, "cut_after": 10}], ids=["refused", "cut"]
)
def test_failed_response_adds_nothing_and_frees_the_conversation(
    cell: Cell, client: openai.OpenAI, script: Body
) -> None:
    made = client.conversations.create()
    cell.post(V1, ask(script, stream=True, conversation=made.id))
    assert texts(client, made.id) == []
    answered(cell, ask(conversation=made.id))


def test_refused_request_frees_the_conversation(cell: Cell, client: openai.OpenAI) -> None:
    made = client.conversations.create()
    check_openai(cell.post(V1, ask(conversation=made.id, stream=1)), 400, "invalid_request")
    capped = cell.post(
        V1, ask(conversation=made.id), headers={"x-penstock-max-cost-usd": "0.000000001"}
    )
    assert capped.status_code == 400
    answered(cell, ask(conversation=made.id))


def test_storing_nothing_appends_nothing(cell: Cell, client: openai.OpenAI) -> None:
    made = client.conversations.create(items=[said("a")])
    items, responses = count_rows(cell, "conversation_items"), count_rows(cell, "responses")
    answered(cell, ask(conversation=made.id, store=False))
    assert texts(client, made.id) == ["a"]
    assert count_rows(cell, "conversation_items") == items
    assert count_rows(cell, "responses") == responses


def test_second_try_of_a_lost_call_adds_nothing(cell: Cell, client: openai.OpenAI) -> None:
    id = client.conversations.create().id
    body = {"items": [said("a"), said("b")]}
    first = cell.post(f"{PATH}/{id}/items", body).json()
    again = cell.post(f"{PATH}/{id}/items", body, headers={"x-stainless-retry-count": "1"})
    assert again.json() == first
    # A caller that means it twice gets it twice.
    cell.post(f"{PATH}/{id}/items", body)
    assert texts(client, id) == ["a", "b", "a", "b"]
    with psycopg.connect(cell.dsn) as connection:
        connection.execute("update conversations set last_call_at = now() - interval '61 s'")
    cell.post(f"{PATH}/{id}/items", body, headers={"x-stainless-retry-count": "1"})
    assert len(texts(client, id)) == 6


def test_item_with_a_known_id_counts_once(client: openai.OpenAI) -> None:
    response = client.responses.create(**ask())
    items: Any = [item.model_dump() for item in response.output]
    made = client.conversations.create(items=items)
    client.conversations.items.create(made.id, items=items)
    assert len(texts(client, made.id)) == 1
    # As openai-agents sends reasoning: without an id or a summary.
    thought: Any = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    added = client.conversations.items.create(made.id, items=[thought, said("and?")])
    assert [item.type for item in added.data] == ["reasoning", "message"]


@pytest.mark.parametrize(
    "body",
    [
        {"items": [said("x")] * 21},
        {"items": [{"type": "file_search_call"}]},
        {"items": [{"type": "item_reference", "id": "msg_1"}]},
        {"items": [{"role": "nobody", "content": "x"}]},
        {"items": "x"},
        {"items": [5]},
        {"metadata": {"a": "x" * 513}},
        {"metadata": {str(number): "" for number in range(17)}},
        {"metadata": {"a": 1}},
    ],
)
def test_what_is_wrong_is_refused(cell: Cell, body: Body) -> None:
    refused = cell.post(PATH, body)
    assert refused.status_code == 400, refused.text


@pytest.mark.parametrize("odd", ["%00", "msg_%00", "x", "%ED%A0%80", "msg_1%27"])
def test_odd_ids_are_unknown(cell: Cell, client: openai.OpenAI, odd: str) -> None:
    id = client.conversations.create(items=[said("a")]).id
    assert cell.get(f"{PATH}/{id}/items/{odd}").status_code == 404
    assert cell.get(f"{PATH}/{id}/items?after={odd}").status_code == 400
    assert cell.get(f"{PATH}/{odd}").status_code == 404
    assert cell.get(f"{V1}/{odd}").status_code == 404
    assert cell.get(f"{V1}/{odd}/input_items?after={odd}").status_code == 404


def test_conversation_and_previous_response_exclude_each_other(cell: Cell) -> None:
    refused = cell.post(V1, ask(conversation="conv_1", previous_response_id="resp_1"))
    check_openai(refused, 400, "invalid_request")


def test_ids_of_another_account_are_as_unknown_as_any(cell: Cell, client: openai.OpenAI) -> None:
    _, _, key = cell.add_account("other")
    headers = {"authorization": f"Bearer {key}"}
    made = [client.conversations.create(items=[said("a")]).id for _ in range(20)]
    item = client.conversations.items.list(made[0]).data[0].id
    bodies = set()
    for id in [*made, "conv_0198ffffffff7fffbfffffffffffffff", "conv_1"]:
        one = f"{PATH}/{id}"
        for method, path, body in (
            ("GET", one, None),
            ("POST", one, {"metadata": {}}),
            ("DELETE", one, None),
            ("GET", f"{one}/items", None),
            ("POST", f"{one}/items", {"items": [said("x")]}),
            ("GET", f"{one}/items/{item}", None),
            ("DELETE", f"{one}/items/{item}", None),
            ("POST", V1, ask(conversation=id)),
            ("POST", V1, ask(conversation=id, store=False)),
        ):
            url = cell.gateway.url + path
            seen = cell.client.request(method, url, headers=headers, json=body)
            assert seen.status_code == 404, (method, path, seen.text)
            bodies.add(seen.json()["error"]["message"])
    assert len(bodies) == 1
    assert all(texts(client, id) == ["a"] for id in made)


def test_conversations_are_bounded(cells: CellFactory) -> None:
    bounds = {"conversations.items_max": 3, "responses.context_bytes_max": 3000}
    with cells.open({**QUICK, **bounds}) as cell:
        cell.set_up(CHAT)
        id = cell.post(PATH, {"items": [said("word " * 700), said("b")]}).json()["id"]
        full = cell.post(f"{PATH}/{id}/items", {"items": [said("c"), said("d")]})
        check_openai(full, 400, "invalid_request")
        check_openai(cell.post(V1, ask(conversation=id)), 400, "invalid_request")


def test_idle_conversations_are_gone(cell: Cell, client: openai.OpenAI) -> None:
    id = client.conversations.create(items=[said("x" * 50_000)]).id
    with psycopg.connect(cell.dsn) as connection:
        connection.execute("update conversations set used_at = now() - interval '31 days'")
    assert cell.get(f"{PATH}/{id}").status_code == 404
    assert cell.post(V1, ask(conversation=id, store=False)).status_code == 404
