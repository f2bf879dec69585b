"""Background responses: queued, run as jobs, read again from any event on, cancelled, deleted."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import psycopg
import pytest
from openai.types.responses import Response
from tests.integration.cells.batch_cell import sdk
from tests.integration.cells.gateway_answers import check_openai
from tests.integration.cells.gateway_cell import CHAT, PLAIN, Cell, CellFactory
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.job_runner import JobRunner
from tests.integration.cells.named_streams import named_events
from tests.integration.cells.stored_cell import STORING, V1, answered, ask, count_rows

from penstock.app.job_rooms import job_desk, session_books
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.jobs.submission import DeskRooms
from penstock.queue import Batches, Queue, QueueSettings
from penstock.store import Store
from penstock.testing import ScriptedEngine
from penstock.turns import BackgroundResponses
from penstock.turns.left_over_responses import LeftOverResponses

QUICK = {**STORING, "ingress.job_poll_seconds": 0.05, "ingress.keepalive_seconds": 1.0}
LOOK = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
DONE = "data: [DONE]\n\n"
Body = dict[str, Any]


@pytest.fixture(scope="module")
def running(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine, JobRunner]]:
    with cells.open(QUICK) as cell:
        engine = cell.set_up(CHAT, PLAIN)
        with JobRunner(cell, engine.url) as runner:
            yield cell, engine, runner


@pytest.fixture
def cell(running: tuple[Cell, ScriptedEngine, JobRunner]) -> Cell:
    return running[0]


@pytest.fixture
def runner(running: tuple[Cell, ScriptedEngine, JobRunner]) -> Iterator[JobRunner]:
    yield running[2]
    running[2].go_on()
    running[2].is_old = False


@pytest.fixture
def client(cell: Cell) -> openai.OpenAI:
    return sdk(cell)


def queued(cell: Cell, script: Body | None = None, **fields: object) -> Body:
    response = answered(cell, {**ask(script), "background": True, **fields})
    assert (response["status"], response["background"]) == ("queued", True)
    return response


def ended(cell: Cell, id: str) -> Body:
    eventually(lambda: cell.get(f"{V1}/{id}").json()["status"] not in ("queued", "in_progress"))
    response: Body = cell.get(f"{V1}/{id}").json()
    return response


def stream(cell: Cell, id: str, after: int | None = None) -> list[Any]:
    query = "" if after is None else f"&starting_after={after}"
    text = cell.get(f"{V1}/{id}?stream=true{query}").text
    assert text.endswith(DONE)
    return named_events(text[: -len(DONE)])


def test_response_is_queued_and_found_when_it_has_ended(cell: Cell, runner: JobRunner) -> None:
    made = queued(cell, {"reasoning": "Hm.", "tokens": 12}, metadata={"a": "b"})
    assert made["service_tier"] == "flex"
    response = Response.model_validate(ended(cell, made["id"]))
    assert response.status == "completed"
    assert [item.type for item in response.output] == ["reasoning", "message"]
    assert response.usage is not None
    assert response.usage.output_tokens >= 12
    assert response.metadata == {"a": "b"}
    job = made["id"].removeprefix("resp_")
    assert job in [id.replace("-", "") for id in runner.ran]
    # The next turn goes on from it, now or in the background.
    answered(cell, ask(previous_response_id=made["id"]))
    again = queued(cell, previous_response_id=made["id"])
    assert ended(cell, again["id"])["status"] == "completed"


def test_stream_of_the_sdk_can_be_resumed_after_every_event(
    cell: Cell, client: openai.OpenAI
) -> None:
    asked: Any = ask({"reasoning": "Hm.", "tokens": 12}, background=True)
    live = list(client.responses.create(**asked, stream=True))
    assert [event.type for event in live[:3]] == [
        "response.created", "response.queued", "response.in_progress",
    ]  # fmt: skip
    assert live[-1].type == "response.completed"
    numbers = [event.sequence_number for event in live]
    assert numbers == list(range(len(live)))
    id = live[-1].response.id
    whole = stream(cell, id)
    for after in range(-1, len(live)):
        rest = stream(cell, id, after if after >= 0 else None)
        assert rest == whole[after + 1 :]
    assert [event.data["sequence_number"] for event in whole] == numbers
    resumed = client.responses.retrieve(id, stream=True, starting_after=2)
    assert [event.sequence_number for event in resumed] == numbers[3:]
    assert live[-1].response.output_text == client.responses.retrieve(id).output_text


def test_calls_are_streamed_as_they_are_stored(cell: Cell, client: openai.OpenAI) -> None:
    tools: Any = [LOOK]
    made = client.responses.create(**ask(), background=True, tools=tools, tool_choice="required")
    ended(cell, made.id)
    with client.responses.stream(response_id=made.id) as events:
        final = events.get_final_response()
    (call,) = final.output
    assert call.type == "function_call"
    output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "A door."}
    client.responses.create(model=CHAT, input=[output], previous_response_id=made.id)


def test_reader_that_waits_gets_what_comes(cell: Cell, runner: JobRunner) -> None:
    runner.hold()
    made = queued(cell)
    assert cell.get(f"{V1}/{made['id']}").json()["status"] == "queued"
    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(stream, cell, made["id"], after) for after in (None, 0, 1)]
        # Comments keep the connections open meanwhile.
        eventually(lambda: not any(reader.done() for reader in readers), 2)
        runner.go_on()
        events = [reader.result(30) for reader in readers]
    assert events[1] == events[0][1:]
    assert events[2] == events[0][2:]


@pytest.mark.parametrize("is_stream", [False, True])
def test_queued_response_is_cancelled_at_once(
    cell: Cell, client: openai.OpenAI, runner: JobRunner, is_stream: bool
) -> None:
    runner.hold()
    made = queued(cell)
    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(stream, cell, made["id"]) if is_stream else None
        cancelled = client.responses.cancel(made["id"])
        assert cancelled.status == "cancelled"
        if reader is not None:
            last = reader.result(30)[-1]
            assert (last.name, last.data["response"]["status"]) == (
                "response.incomplete",
                "cancelled",
            )
    assert client.responses.cancel(made["id"]).status == "cancelled"
    runner.go_on()
    check_openai(cell.post(V1, ask(previous_response_id=made["id"])), 400, "invalid_request")
    foreground = answered(cell, ask())
    check_openai(cell.post(f"{V1}/{foreground['id']}/cancel", {}), 400, "invalid_request")
    check_openai(cell.get(f"{V1}/{foreground['id']}?stream=true"), 400, "invalid_request")


def test_running_response_is_cancelled_at_once(cell: Cell, runner: JobRunner) -> None:
    made = queued(cell, {"stall_before_head": 1.5})
    eventually(lambda: cell.get(f"{V1}/{made['id']}").json()["status"] == "in_progress")
    assert cell.post(f"{V1}/{made['id']}/cancel", {}).json()["status"] == "cancelled"
    ran = len(runner.ran)
    eventually(lambda: len(runner.ran) > ran)
    assert cell.get(f"{V1}/{made['id']}").json()["status"] == "cancelled"


def test_cancel_and_completion_end_a_response_once(cell: Cell, client: openai.OpenAI) -> None:
    """What `cancel` answers is what is found ever after, and the log ends accordingly."""
    ids = [queued(cell, {"tokens": 1})["id"] for _ in range(200)]
    with ThreadPoolExecutor(4) as pool:
        told = dict(pool.map(lambda id: (id, client.responses.cancel(id).status), ids))
    found = {id: ended(cell, id)["status"] for id in ids}
    assert set(found.values()) <= {"completed", "cancelled"}
    assert {id: status for id, status in told.items() if found[id] != status} == {}
    with psycopg.connect(cell.dsn) as connection:
        rows = connection.execute("select id::text, state from jobs where door = 'responses'")
        states = {f"resp_{id.replace('-', '')}": state for id, state in rows}
    wanted = {"completed": "succeeded", "cancelled": "cancelled"}
    assert {id for id in ids if states[id] not in (wanted[found[id]], "running")} == set()


def test_request_that_is_sent_again_gets_the_same_response(cell: Cell) -> None:
    headers = {"idempotency-key": "once"}
    body = {**ask(), "background": True}
    ids = {cell.post(V1, body, headers=headers).json()["id"] for _ in range(3)}
    ids |= {cell.post(V1, {**body, "stream": True}, headers=headers).text.split('"id":"')[1][:37]}
    assert len(ids) == 1
    assert ended(cell, ids.pop())["status"] == "completed"


def test_failed_job_fails_its_response(cell: Cell) -> None:
    made = queued(cell, {"status": 400, "message": "no"})
    response = ended(cell, made["id"])
    assert response["status"] == "failed"
    assert response["error"]["code"]
    events = stream(cell, made["id"])
    assert [event.name for event in events] == [
        "response.created", "response.queued", "response.in_progress", "response.failed",
    ]  # fmt: skip


def test_deleted_response_is_not_run(cell: Cell, client: openai.OpenAI, runner: JobRunner) -> None:
    runner.hold()
    made = queued(cell)
    client.responses.delete(made["id"])
    runner.go_on()
    assert cell.get(f"{V1}/{made['id']}").status_code == 404
    ran = len(runner.ran)
    ended(cell, queued(cell)["id"])
    assert len(runner.ran) == ran + 1


def _dashed(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


@pytest.mark.parametrize(
    ("fields", "param"),
    [({"store": False}, "background"), ({"model": PLAIN}, "background")],
)
def test_what_cannot_run_in_the_background_is_refused(cell: Cell, fields: Body, param: str) -> None:
    before = count_rows(cell, "responses")
    refused = cell.post(V1, {**ask(background=True), **fields})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == param
    assert count_rows(cell, "responses") == before


def test_conversation_is_locked_until_its_background_response_ends(
    cell: Cell, client: openai.OpenAI, runner: JobRunner
) -> None:
    talk = client.conversations.create().id
    runner.hold()
    made = queued(cell, conversation=talk)
    locked = cell.post(V1, ask(conversation=talk))
    check_openai(locked, 409, "conversation_locked", retry=True, retry_after=True)
    runner.go_on()
    ended(cell, made["id"])
    assert len(list(client.conversations.items.list(talk))) == 2
    runner.hold()
    again = queued(cell, conversation=talk)
    client.responses.cancel(again["id"])
    answered(cell, ask(conversation=talk))
    assert len(list(client.conversations.items.list(talk))) == 4


def test_jobs_ended_by_an_earlier_release_end_their_responses(
    cell: Cell, runner: JobRunner
) -> None:
    runner.is_old = True
    made = [queued(cell)["id"] for _ in range(3)]
    eventually(lambda: len(runner.ran) >= 3)
    eventually(lambda: all(_job_state(cell, id) == "succeeded" for id in made))
    assert {cell.get(f"{V1}/{id}").json()["status"] for id in made} == {"queued"}

    async def end_them(store: Store) -> int:
        values = await cell.open_values(store)
        rooms = DeskRooms(store, Queue(QueueSettings()), Batches(), values)
        books = session_books(store, values, Config(), SystemClock())
        desk = job_desk(rooms, Config(), SystemClock())
        responses = BackgroundResponses(books, SystemClock())
        left = LeftOverResponses(store, desk, books, responses)
        return await left.end_them()

    # Not at once: a keeper of this release ends both in one transaction.
    with psycopg.connect(cell.dsn) as connection:
        connection.execute("update responses set created_at = created_at - interval '1 minute'")
    assert cell.run(end_them) == 3
    assert cell.run(end_them) == 0
    assert {cell.get(f"{V1}/{id}").json()["status"] for id in made} == {"completed"}


def _job_state(cell: Cell, id: str) -> str:
    state: str = cell.get(f"/v1/jobs/{_dashed(id.removeprefix('resp_'))}").json()["state"]
    return state


def test_large_answers_are_objects(cell: Cell) -> None:
    made = queued(cell, {"text": "a long answer " * 4000}, instructions="b" * 50_000)
    response = ended(cell, made["id"])
    assert len(response["output"][0]["content"][0]["text"]) > 50_000
    assert response["instructions"] == "b" * 50_000
    assert json.loads(json.dumps(stream(cell, made["id"])[-1].data["response"])) == response
    gone = cell.client.delete(f"{cell.gateway.url}{V1}/{made['id']}", headers=cell.authorization())
    assert gone.status_code == 200
    assert not [
        path
        for path in cell.journal.parent.rglob(f"*{_dashed(made['id'][5:])}-*/*")
        if path.is_file()
    ]
