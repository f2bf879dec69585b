"""What callers may try against stored state, and what must not be left behind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from tests.integration.cells.batch_cell import sdk
from tests.integration.cells.gateway_answers import check_openai
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.job_runner import JobRunner
from tests.integration.cells.raw_client import RawClient, post_bytes
from tests.integration.cells.stored_cell import STORING, V1, answered, ask

from penstock.app.job_rooms import job_desk, session_books
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.jobs.submission import DeskRooms
from penstock.queue import Batches, Queue, QueueSettings
from penstock.store import Store
from penstock.turns import BackgroundResponses
from penstock.turns.left_over_responses import LeftOverResponses

PATH = "/v1/conversations"
QUICK = {**STORING, "ingress.job_poll_seconds": 0.05, "conversations.tenure_seconds": 1.0}
LARGE = {"role": "user", "content": "a long text " * 8000}
Body = dict[str, Any]


@pytest.fixture
def running(cells: CellFactory) -> Iterator[tuple[Cell, JobRunner]]:
    with cells.open(QUICK) as cell:
        engine = cell.set_up(CHAT)
        with JobRunner(cell, engine.url) as runner:
            yield cell, runner


def objects_of(cell: Cell) -> list[Path]:
    folder = cell.journal.parent / "penstock-state" / "objects"
    return [path for path in folder.rglob("*") if path.is_file()]


def talk(cell: Cell) -> str:
    id: str = cell.post(PATH, {}).json()["id"]
    return id


def test_refused_background_request_leaves_its_conversation_free(
    running: tuple[Cell, JobRunner],
) -> None:
    cell, _ = running
    id = talk(cell)
    body = {**ask(), "background": True, "conversation": id}
    refused = cell.post(V1, body, headers={"idempotency-key": "x" * 2000})
    assert refused.status_code == 400
    answered(cell, ask(conversation=id))


def test_client_that_leaves_at_the_end_leaves_its_conversation_free(
    running: tuple[Cell, JobRunner],
) -> None:
    cell, _ = running
    for _ in range(10):
        id = talk(cell)
        with RawClient(cell.gateway.port) as client:
            body = ask({"tokens": 3}, stream=True, conversation=id)
            client.send(post_bytes(V1, body, cell.key))
            client.read_until(b"event: response.output_text.delta")
        eventually(lambda id=id: cell.post(V1, ask(conversation=id)).status_code == 200)  # type: ignore[misc]


def test_deleted_background_response_frees_its_conversation(
    running: tuple[Cell, JobRunner],
) -> None:
    """Also if only its row is deleted, as retention does: control looks for that."""
    cell, runner = running
    id = talk(cell)
    runner.hold()
    made = answered(cell, {**ask(), "background": True, "conversation": id})["id"]
    with psycopg.connect(cell.dsn) as connection:
        connection.execute("delete from responses")
    assert cell.get(f"{V1}/{made}").status_code == 404
    assert cell.post(V1, ask(conversation=id)).status_code == 409

    async def look(store: Store) -> int:
        values = await cell.open_values(store)
        rooms = DeskRooms(store, Queue(QueueSettings()), Batches(), values)
        books = session_books(store, values, Config(), SystemClock())
        responses = BackgroundResponses(books, SystemClock())
        desk = job_desk(rooms, Config(), SystemClock())
        return await LeftOverResponses(store, desk, books, responses).end_them()

    assert cell.run(look) == 1
    answered(cell, ask(conversation=id))


def test_refused_items_leave_no_objects(cells: CellFactory) -> None:
    bounds = {"conversations.bytes_per_account_max": 1000, "conversations.items_max": 3}
    with cells.open({**QUICK, **bounds}) as cell:
        cell.set_up(CHAT)
        unknown = f"{PATH}/conv_0198ffffffff7fffbfffffffffffffff/items"
        assert cell.post(unknown, {"items": [LARGE]}).status_code == 404
        first = cell.post(PATH, {"items": [{"role": "user", "content": "x" * 900}]}).json()["id"]
        eventually(lambda: cell.post(PATH, {"items": [LARGE]}).status_code == 429, 15)
        check_openai(cell.post(f"{PATH}/{first}/items", {"items": [LARGE]}), 429, "quota_spent")
        # Nor do responses get past the quota.
        check_openai(cell.post(V1, ask(conversation=first)), 429, "quota_spent")
        with psycopg.connect(cell.dsn) as connection:
            named = "select count(*) from conversation_items where item_object <> ''"
            row = connection.execute(named).fetchone()
        assert row == (len(objects_of(cell)),)


def test_repeated_items_leave_no_objects(running: tuple[Cell, JobRunner]) -> None:
    cell, _ = running
    id = talk(cell)
    for count in ("0", "1", "2"):
        headers = {"x-stainless-retry-count": count}
        assert (
            cell.post(f"{PATH}/{id}/items", {"items": [LARGE]}, headers=headers).status_code == 200
        )
    assert len(objects_of(cell)) == 1


def test_deleted_background_response_is_nowhere_else(running: tuple[Cell, JobRunner]) -> None:
    cell, runner = running
    body = {**ask({"text": "b" * 50_000}, text="a" * 50_000), "background": True}
    id = answered(cell, body)["id"]
    eventually(lambda: cell.get(f"{V1}/{id}").json()["status"] == "completed")
    assert objects_of(cell)
    cell.client.delete(f"{cell.gateway.url}{V1}/{id}", headers=cell.authorization())
    assert cell.get(f"/v1/jobs/{runner.ran[-1]}").status_code == 404
    assert objects_of(cell) == []


def test_large_items_are_paged_by_size(running: tuple[Cell, JobRunner]) -> None:
    cell, _ = running
    id = talk(cell)
    huge = {"role": "user", "content": "x" * (3 * 2**20)}
    for _ in range(4):
        assert cell.post(f"{PATH}/{id}/items", {"items": [huge]}).status_code == 200
    page = cell.get(f"{PATH}/{id}/items?limit=100").json()
    assert (len(page["data"]), page["has_more"]) == (2, True)
    items: Any = sdk(cell).conversations.items.list(id, limit=100, order="asc")
    assert len(list(items)) == 4


def test_account_that_stores_nothing_can_still_delete(running: tuple[Cell, JobRunner]) -> None:
    cell, _ = running
    id = talk(cell)
    with psycopg.connect(cell.dsn) as connection:
        connection.execute(
            "update policy_revision set revision = revision + 1;"
            "update accounts set storage = 'never',"
            " revision = (select revision from policy_revision)"
        )
    eventually(lambda: cell.post(PATH, {}).status_code == 400)
    assert cell.get(f"{PATH}/{id}").status_code == 200
    gone = cell.client.delete(f"{cell.gateway.url}{PATH}/{id}", headers=cell.authorization())
    assert gone.status_code == 200


def test_forgotten_account_keeps_nothing_of_what_still_runs(
    running: tuple[Cell, JobRunner],
) -> None:
    cell, _ = running
    with RawClient(cell.gateway.port) as client:
        body = ask({"tokens": 60, "interval": 0.03}, stream=True)
        client.send(post_bytes(V1, body, cell.key))
        client.read_until(b"event: response.output_text.delta")
        with psycopg.connect(cell.dsn) as connection:
            connection.execute("update accounts set is_blocked = true")
            connection.execute("delete from account_keys")
        rest = client.read_until(b"[DONE]")
    assert b'"store":false' in rest.partition(b"event: response.completed")[2]


def test_reader_without_a_place_queues_nothing(cells: CellFactory) -> None:
    with cells.open({**QUICK, "ingress.job_waits_per_account_max": 1}) as cell:
        cell.set_up(CHAT)
        body = {**ask(), "background": True, "stream": True}
        url = cell.gateway.url + V1
        with httpx.stream("POST", url, json=body, headers=cell.authorization()) as first:
            # Kept: without it the connection is closed, and the place is free.
            lines = first.iter_lines()
            assert next(lines)
            refused = cell.post(V1, body)
            assert refused.status_code == 429
            with psycopg.connect(cell.dsn) as connection:
                row = connection.execute("select count(*) from jobs").fetchone()
            assert row == (1,)
