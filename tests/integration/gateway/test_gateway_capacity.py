"""A model whose replicas are full: waiting, being let in, and refusal with 429 and code 3040."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai
from tests.integration.cells.gateway_cell import (
    CHAT,
    NATIVE,
    PLAIN,
    Cell,
    CellFactory,
    chat_body,
    prompt,
)
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_HOLD = {"tokens": 1000, "interval": 0.05}


@pytest.fixture(scope="module")
def tight(cells: CellFactory) -> Iterator[tuple[Cell, ScriptedEngine]]:
    """One slot for each model, two may wait, a second at most."""
    settings = {
        "admission.waiting_max": 2,
        "admission.wait_seconds_max": 1.0,
        "admission.retry_after_seconds": 7,
        "admission.retry_after_seconds_max": 30,
    }
    with cells.open(settings) as cell:
        yield cell, cell.set_up(CHAT, PLAIN, NATIVE, slots_live=1)


@pytest.fixture
def cell(tight: tuple[Cell, ScriptedEngine]) -> Iterator[Cell]:
    yield tight[0]
    tight[0].wait_until_idle()


@contextmanager
def _held_slot(cell: Cell, model: str = CHAT) -> Iterator[None]:
    """A stream that takes the model's one slot for as long as the block runs."""
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, chat_body(model, _HOLD, stream=True), cell.key))
        client.read_until(b"data: ")
        yield


def _in_thread(cell: Cell, body: dict[str, Any], answers: list[httpx.Response]) -> threading.Thread:
    thread = threading.Thread(target=lambda: answers.append(cell.chat(body)))
    thread.start()
    return thread


def _waiting(cell: Cell) -> float:
    return cell.gateway.metric("penstock_waiting")


def test_error_3040_reject_if_busy_in_the_body(cell: Cell) -> None:
    options: dict[str, Any] = {"options": {"rejectIfBusy": True}}
    with _held_slot(cell):
        answer = cell.run_model(CHAT, {"messages": prompt(), **options})
        message = check_envelope(answer, 429, 3040, retry=True, retry_after=True)
        assert message == "Capacity temporarily exceeded, please try again."
        # Nothing was seen to end here yet, so there is no rate to tell it by.
        assert answer.headers["retry-after"] == "7"
        answer = cell.post(cell.path("v1/chat/completions"), chat_body(**options))
        check_envelope(answer, 429, 3040, retry=True, retry_after=True)
        answer = cell.chat(chat_body(**options))
        check_openai(answer, 429, "out_of_capacity", retry=True, retry_after=True)
        outer = {"model": CHAT, "input": {"messages": prompt()}, **options}
        check_envelope(cell.post(cell.path("run"), outer), 429, 3040, retry=True, retry_after=True)


def test_error_3040_reject_if_busy_in_the_query(cell: Cell) -> None:
    with _held_slot(cell):
        answer = cell.run_model(f"{CHAT}?rejectIfBusy=true&tags=a", {"messages": prompt()})
        check_envelope(answer, 429, 3040, retry=True, retry_after=True)
        answer = cell.post(f"{_V1}?rejectIfBusy=true", chat_body())
        check_openai(answer, 429, "out_of_capacity", retry=True, retry_after=True)


def test_error_3040_reject_if_busy_in_a_header(cell: Cell) -> None:
    headers = {"x-penstock-reject-if-busy": "true"}
    with _held_slot(cell):
        answer = cell.post(cell.path(f"run/{CHAT}"), {"messages": prompt()}, headers=headers)
        check_envelope(answer, 429, 3040, retry=True, retry_after=True)


def test_those_who_are_refused_are_offered_the_queue(cell: Cell) -> None:
    busy: dict[str, Any] = {"options": {"rejectIfBusy": True}}
    with _held_slot(cell), _held_slot(cell, PLAIN):
        error = cell.chat(chat_body(**busy)).json()["error"]
        assert error["async"] == {"href": _V1, "headers": {"Prefer": "respond-async"}}
        path = cell.path("v1/chat/completions")
        body = cell.post(f"{path}?rejectIfBusy=1", chat_body()).json()
        assert body["error"]["async"] == {"href": path, "headers": {"Prefer": "respond-async"}}
        assert body["errors"][0]["async"] == body["error"]["async"]
        path = cell.path(f"run/{CHAT}")
        body = cell.post(f"{path}?rejectIfBusy=1&tags=a", {"prompt": "x"}).json()
        offer = body["errors"][0]["async"]
        assert offer == {"href": f"{path}?queueRequest=true", "headers": {}}
        # A model that takes no queued requests has nothing to offer.
        assert "async" not in cell.chat(chat_body(PLAIN, **busy)).json()["error"]
        # What is offered is taken, while the model is still busy.
        answer = cell.post(_V1, chat_body(), headers={"Prefer": "respond-async"})
        assert answer.status_code == 202
        queued = cell.client.post(
            cell.gateway.url + offer["href"], json={"prompt": "x"}, headers=cell.authorization()
        )
        assert queued.json()["result"]["status"] == "queued"


def test_retry_after_is_how_long_the_line_takes(cell: Cell) -> None:
    """One slot and a quarter of a second for each: four end in a second."""
    answers: list[httpx.Response] = []
    refused: list[httpx.Response] = []
    body = chat_body(CHAT, {"tokens": 5, "interval": 0.05})
    began = time.monotonic()
    while time.monotonic() - began < 3:
        threads = [_in_thread(cell, body, answers) for _ in range(2)]
        for thread in threads:
            thread.join()
        if time.monotonic() - began > 2 and not refused:
            with _held_slot(cell):
                refused.append(cell.chat(chat_body(options={"rejectIfBusy": True})))
    (answer,) = refused
    check_openai(answer, 429, "out_of_capacity", retry=True, retry_after=True)
    assert int(answer.headers["retry-after"]) < 7
    assert {each.status_code for each in answers} == {200}


def test_reject_if_busy_does_not_reject_when_there_is_room(cell: Cell) -> None:
    answer = cell.run_model(CHAT, {"messages": prompt(), "options": {"rejectIfBusy": True}})
    assert answer.status_code == 200


def test_error_3040_a_wait_that_is_too_long(cell: Cell) -> None:
    with _held_slot(cell):
        began = time.monotonic()
        for stream in (False, True):
            answer = cell.run_model(CHAT, {"messages": prompt(), "stream": stream})
            check_envelope(answer, 429, 3040, retry=True, retry_after=True)
        assert 1.8 < time.monotonic() - began < 4


def test_error_3040_a_full_queue(cell: Cell) -> None:
    answers: list[httpx.Response] = []
    with _held_slot(cell):
        waiters = [_in_thread(cell, chat_body(), answers) for _ in range(2)]
        eventually(lambda: _waiting(cell) == 2)
        began = time.monotonic()
        answer = cell.run_model(CHAT, {"messages": prompt()})
        check_envelope(answer, 429, 3040, retry=True, retry_after=True)
        assert time.monotonic() - began < 0.5
    for waiter in waiters:
        waiter.join()
    # Those in the queue were let in when the slot came free.
    assert [answer.status_code for answer in answers] == [200, 200]


def test_a_busy_model_does_not_hold_up_another(cell: Cell) -> None:
    with _held_slot(cell):
        assert cell.chat(chat_body(PLAIN)).status_code == 200


def test_one_slot_runs_one_request_at_a_time(
    cell: Cell, tight: tuple[Cell, ScriptedEngine]
) -> None:
    """Three requests for one slot are run one after the other, none is lost."""
    running: list[int] = []
    answers: list[httpx.Response] = []
    body = chat_body(NATIVE, {"tokens": 5, "interval": 0.03})
    threads = [_in_thread(cell, body, answers) for _ in range(3)]
    while any(thread.is_alive() for thread in threads):
        running.append(tight[1].state().running)
        time.sleep(0.01)
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    assert max(running) == 1


def test_a_client_that_leaves_the_queue_makes_room_in_it(
    cell: Cell, tight: tuple[Cell, ScriptedEngine]
) -> None:
    requests = tight[1].state().requests
    with _held_slot(cell):
        for _ in range(3):
            with RawClient(cell.gateway.port) as client:
                client.send(post_bytes(_V1, chat_body(), cell.key))
                eventually(lambda: _waiting(cell) == 1)
            eventually(lambda: _waiting(cell) == 0)
    cell.wait_until_idle()
    # None of them ever reached the engine.
    assert tight[1].state().requests == requests + 1


def test_the_wait_is_in_the_request_line(cell: Cell) -> None:
    answers: list[httpx.Response] = []
    with _held_slot(cell):
        waiter = _in_thread(cell, chat_body(), answers)
        eventually(lambda: _waiting(cell) == 1)
        time.sleep(0.2)
    waiter.join()
    line = cell.gateway.request_line(answers[0].headers["x-request-id"])
    assert 150 < line["queue_ms"] < 1100
    assert line["outcome"] == "ok"


def test_waits_are_counted_and_refusals_without_one_are_not(cell: Cell) -> None:
    count = "penstock_wait_seconds_count"
    before = cell.gateway.metric(count)
    answers: list[httpx.Response] = []
    with _held_slot(cell):
        waiter = _in_thread(cell, chat_body(), answers)
        eventually(lambda: _waiting(cell) == 1)
        refused = cell.chat(chat_body(options={"rejectIfBusy": True}))
        assert refused.status_code == 429
    waiter.join()
    assert "queue_ms" not in cell.gateway.request_line(refused.headers["x-request-id"])
    assert cell.gateway.metric(count) == before + 1


def test_waiting_ends_in_503_when_the_last_replica_goes(cell: Cell, cells: CellFactory) -> None:
    del cell
    with cells.open() as other:
        engine = other.set_up()
        replica = other.enroll(engine.url, CHAT, slots_live=1)
        other.wait_for_replicas(CHAT, 1)
        answers: list[httpx.Response] = []
        with _held_slot(other):
            waiters = [_in_thread(other, chat_body(), answers) for _ in range(3)]
            eventually(lambda: _waiting(other) == 3)
            other.withdraw(replica)
            for waiter in waiters:
                waiter.join(5)
        for answer in answers:
            check_openai(answer, 503, "no_replica", retry=True, retry_after=True)
        assert len(answers) == 3
        # They have waited, though for nothing.
        line = other.gateway.request_line(answers[0].headers["x-request-id"])
        assert line["queue_ms"] > 0
        assert other.gateway.metric("penstock_wait_seconds_count") == 3
