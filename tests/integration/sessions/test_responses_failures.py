"""What each failure does to a foreground response: the rows of docs/state.md's failure table."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
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
    postgres_away,
)

from penstock.testing import ScriptedEngine

QUICK = {**STORING, "store.connect_seconds": 2, "store.reconnect_seconds": 0.5}
Body = dict[str, Any]


@pytest.fixture(scope="module")
def storing(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    with cells.open(QUICK) as cell:
        yield cell, cell.set_up(CHAT)


@pytest.fixture
def cell(storing: tuple[Cell, ScriptedEngine]) -> Cell:
    return storing[0]


def stored(cell: Cell, id: str) -> Body:
    answer = cell.get(f"{V1}/{id}")
    assert answer.status_code == 200, answer.text
    response: Body = answer.json()
    return response


def first_event(client: RawClient) -> Body:
    """Read a stream up to `response.created`; return the response that it reports."""
    seen = b""
    while b"event: response.output_text.delta" not in seen:
        seen += client.socket.recv(65536)
    line = next(line for line in seen.split(b"\n") if line.startswith(b"data: "))
    response: Body = json.loads(line[6:])["response"]
    return response


def begin_stream(cell: Cell, client: RawClient) -> Body:
    body = ask({"tokens": 2000, "interval": 0.02}, stream=True)
    client.send(post_bytes(V1, body, cell.key))
    return first_event(client)


def test_gateway_killed_mid_answer_stores_nothing(cells: CellFactory) -> None:
    with cells.open(QUICK) as cell:
        cell.set_up(CHAT)
        with RawClient(cell.gateway.port) as client:
            id = begin_stream(cell, client)["id"]
            kill(cell)
        with cell.gateway:
            assert cell.get(f"{V1}/{id}").status_code == 404
        assert count_rows(cell, "responses") == 0


def test_client_that_leaves_finds_a_cancelled_response(cell: Cell) -> None:
    with RawClient(cell.gateway.port) as client:
        id = begin_stream(cell, client)["id"]
    eventually(lambda: cell.get(f"{V1}/{id}").status_code == 200)
    response = stored(cell, id)
    assert response["status"] == "cancelled"
    assert response["output"][0]["status"] == "incomplete"
    assert response["output"][0]["content"][0]["text"]
    refused = cell.post(V1, ask(previous_response_id=id))
    check_openai(refused, 400, "invalid_request")
    assert "cancelled" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        ({"cut_after": 10}, "engine_lost"),
        ({"error_after": 10}, "engine_failed"),
        ({"garbage_sse_after": 10}, "engine_failed"),
        # The end mark comes in the same read.
        ({"garbage_sse_after": 10, "glue": True}, "engine_failed"),
    ],
)
def test_engine_that_fails_after_the_first_token_is_stored_as_failed(
    cell: Cell, fault: Body, code: str
) -> None:
    stream = cell.post(V1, ask({"tokens": 30, **fault}, stream=True)).text
    last = json.loads(stream.split("data: ")[-2].split("\n")[0])
    assert last["type"] == "response.failed"
    response = stored(cell, last["response"]["id"])
    assert response["status"] == "failed"
    assert response["error"]["code"] == code
    check_openai(cell.post(V1, ask(previous_response_id=response["id"])), 400, "invalid_request")


def test_request_that_fails_before_its_first_token_is_not_stored(cell: Cell) -> None:
    before = count_rows(cell, "responses")
    assert cell.post(V1, ask({"status": 500})).status_code == 502
    assert count_rows(cell, "responses") == before


def test_postgres_away_at_the_beginning_serves_what_needs_no_state(cell: Cell) -> None:
    kept = answered(cell, ask())["id"]
    before = cell.gateway.metric("penstock_responses_unstored_total")
    with postgres_away(cell):
        # Not asked for: it is served, and says what it is.
        eventually(lambda: answered(cell, ask())["store"] is False)
        for fields in ({"store": True}, {"previous_response_id": kept}):
            check_openai(
                cell.post(V1, ask(**fields)), 503, "store_unavailable", retry=True, retry_after=True
            )
        seen = cell.get(f"{V1}/{kept}")
        check_openai(seen, 503, "store_unavailable", retry=True, retry_after=True)
    assert cell.gateway.metric("penstock_responses_unstored_total") > before
    eventually(lambda: cell.get(f"{V1}/{kept}").status_code == 200)
    eventually(lambda: answered(cell, ask())["store"] is True)


def test_postgres_away_at_the_end_delivers_the_answer_unstored(cell: Cell) -> None:
    answered(cell, ask())
    with RawClient(cell.gateway.port) as client:
        body = ask({"tokens": 40, "interval": 0.03}, stream=True)
        client.send(post_bytes(V1, body, cell.key))
        id = first_event(client)["id"]
        with postgres_away(cell):
            rest = client.read_until(b"[DONE]")
    end = rest.decode().partition("event: response.completed\ndata: ")[2].split("\n")[0]
    response = json.loads(end)["response"]
    assert (response["id"], response["status"], response["store"]) == (id, "completed", False)
    eventually(lambda: cell.get(f"{V1}/{id}").status_code == 404)


def test_object_store_away_delivers_the_answer_unstored(cells: CellFactory) -> None:
    with cells.open(QUICK) as cell:
        cell.set_up(CHAT)
        objects = cell.journal.parent / "penstock-state" / "objects"
        # In the place of the account's folder, so that nothing can be written there.
        (objects / cell.account).write_text("")
        assert answered(cell, ask())["store"] is True
        assert answered(cell, ask(text="a long text " * 8000))["store"] is False
