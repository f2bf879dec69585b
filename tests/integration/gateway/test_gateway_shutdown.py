"""SIGTERM: stop accepting, let streams finish for `drain_seconds`, then abort the rest (3008)."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cells.gateway_answers import check_envelope
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body, prompt
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient, is_refused, post_bytes

_V1 = "/v1/chat/completions"
_LONG = {"tokens": 1000, "interval": 0.05}


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
def cell(cells: CellFactory, request: pytest.FixtureRequest) -> Iterator[Cell]:
    settings = {"ingress.drain_seconds": 2, "ingress.workers": request.param}
    with cells.open(settings) as cell:
        cell.set_up(CHAT)
        yield cell


def test_error_3008_what_is_still_running_after_the_drain_is_aborted(cell: Cell) -> None:
    answers: list[Any] = []
    body = {"messages": prompt({"stall_before_head": 30})}
    asker = threading.Thread(target=lambda: answers.append(cell.run_model(CHAT, body)))
    asker.start()
    with RawClient(cell.gateway.port) as client:
        client.send(post_bytes(_V1, chat_body(script=_LONG, stream=True), cell.key))
        client.read_until(b"data: ")
        eventually(lambda: cell.gateway.metric("penstock_in_flight") == 2)
        began = time.monotonic()
        cell.gateway.terminate()
        rest = client.read_until(b"\r\n0\r\n\r\n")
    asker.join()
    assert 1.5 < time.monotonic() - began < 6
    check_envelope(answers[0], 408, 3008)
    events = [event for event in rest.split(b"data: ")[1:] if event.strip()]
    assert events[-1].startswith(b"[DONE]")
    error = json.loads(events[-2].split(b"\n\n")[0])["error"]
    assert error["code"] == "aborted"
    assert error["request_id"]
    assert cell.gateway.wait() in {0, -15}
    outcomes = [line["error"] for line in cell.gateway.request_lines() if "error" in line]
    assert outcomes == ["aborted", "aborted"]


def test_streams_finish_within_the_drain_and_nothing_new_is_taken(cell: Cell) -> None:
    script = {"tokens": 36, "interval": 0.05}
    with RawClient(cell.gateway.port) as client, RawClient(cell.gateway.port) as idle:
        idle.send(post_bytes(_V1, chat_body(), cell.key))
        assert idle.read_answer().status == 200
        client.send(post_bytes(_V1, chat_body(script=script, stream=True), cell.key))
        client.read_until(b"data: ")
        cell.gateway.terminate()
        # An idle connection is closed; a new one is refused while the stream still runs.
        assert idle.is_closed()
        eventually(lambda: is_refused(cell.gateway.port), 1.2)
        rest = client.read_until(b"\r\n0\r\n\r\n")
        assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert b'"error"' not in rest
    assert cell.gateway.wait() in {0, -15}


def test_streams_of_events_have_no_end_and_hold_up_no_drain(cell: Cell) -> None:
    asking = f"GET /v1/events HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {cell.key}\r\n\r\n"
    with RawClient(cell.gateway.port) as client:
        client.send(asking.encode())
        client.read_until(b": connected\n\n")
        began = time.monotonic()
        cell.gateway.terminate()
        client.read_until(b"\r\n0\r\n\r\n")
        assert time.monotonic() - began < 1.5
    assert cell.gateway.wait() in {0, -15}
