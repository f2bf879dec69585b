"""Engines that are slow: keepalive until the first token, and each timeout by itself (3007)."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai, check_request_id
from tests.integration.cells.gateway_cell import (
    CHAT,
    NATIVE,
    PAIR,
    PLAIN,
    Cell,
    CellFactory,
    chat_body,
    events_of,
    new_body,
    prompt,
)
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
_FIRST, _BETWEEN, _TOTAL = 1.5, 0.6, 3.0
Slow = tuple[Cell, ScriptedEngine, ScriptedEngine]


@pytest.fixture(scope="module")
def slow(cells: CellFactory) -> Iterator[Slow]:
    """Short timeouts, and keepalive later than any of them."""
    settings = {
        "engine.first_byte_seconds": _FIRST,
        "engine.between_bytes_seconds": _BETWEEN,
        "engine.total_seconds": _TOTAL,
    }
    with cells.open(settings) as cell:
        first = cell.set_up(CHAT, NATIVE, PLAIN, PAIR)
        second = cell.add_engine()
        cell.enroll(second.url, PAIR)
        cell.wait_for_replicas(PAIR, 2)
        yield cell, first, second


@pytest.fixture(scope="module")
def patient(cells: CellFactory) -> Iterator[Slow]:
    """Keepalive five times a second, and no timeout near."""
    with cells.open({"ingress.keepalive_seconds": 0.2}) as cell:
        first = cell.set_up(CHAT, NATIVE, PAIR)
        second = cell.add_engine()
        cell.enroll(second.url, PAIR)
        cell.wait_for_replicas(PAIR, 2)
        yield cell, first, second


def _timed(cell: Cell, path: str, body: dict[str, Any]) -> tuple[Any, float]:
    began = time.monotonic()
    answer = cell.post(path, body)
    return answer, time.monotonic() - began


def _check_timed_out(answer: Any) -> None:
    events = events_of(answer.text)
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["error"]["code"] == "deadline_passed"


def test_error_3007_no_head_within_the_first_byte_timeout(slow: Slow) -> None:
    cell, engine, _ = slow
    script = {"stall_before_head": 30}
    aborted = engine.state().aborted
    body = {"messages": prompt(script), "stream": True}
    answer, seconds = _timed(cell, cell.path(f"run/{CHAT}"), body)
    check_envelope(answer, 408, 3007)
    assert _FIRST <= seconds < _FIRST + 1
    answer, _ = _timed(cell, _V1, {"model": CHAT, **body})
    check_openai(answer, 504, "deadline_passed")
    # The engine was told to stop.
    assert engine.state().aborted == aborted + 2


def test_error_3007_for_what_is_not_streamed_the_first_byte_may_take_the_total(slow: Slow) -> None:
    cell, _, _ = slow
    body = {"messages": prompt({"stall_before_head": 2})}
    answer, seconds = _timed(cell, cell.path(f"run/{CHAT}"), body)
    assert answer.status_code == 200
    assert seconds >= 2
    body = {"messages": prompt({"stall_before_head": 30})}
    answer, seconds = _timed(cell, cell.path(f"run/{NATIVE}"), body)
    check_envelope(answer, 408, 3007)
    assert _TOTAL <= seconds < _TOTAL + 1


def test_no_first_event_within_the_first_byte_timeout_is_an_error_event(slow: Slow) -> None:
    cell, _, _ = slow
    answer, seconds = _timed(cell, _V1, chat_body(script={"stall_before_first": 30}, stream=True))
    assert answer.status_code == 200
    _check_timed_out(answer)
    assert _FIRST <= seconds < _FIRST + 1


def test_silence_between_events_is_an_error_event(slow: Slow) -> None:
    cell, engine, _ = slow
    script = {"tokens": 20, "stall_after": [5, None]}
    answer, seconds = _timed(cell, _V1, chat_body(script=script, stream=True))
    _check_timed_out(answer)
    assert len(events_of(answer.text)) == 7
    assert _BETWEEN <= seconds < _BETWEEN + 1
    line = cell.gateway.request_line(answer.headers["x-request-id"])
    assert (line["outcome"], line["error"]) == ("failed", "deadline_passed")
    # Four tokens were made and are counted.
    assert line["output_tokens"] == 4
    assert engine.state().running == 0


def test_a_slow_stream_that_goes_on_is_cut_by_the_total_only(slow: Slow) -> None:
    cell, _, _ = slow
    script = {"tokens": 100, "interval": 0.3}
    answer, seconds = _timed(cell, _V1, chat_body(script=script, stream=True))
    _check_timed_out(answer)
    assert _TOTAL <= seconds < _TOTAL + 1
    assert len(events_of(answer.text)) > 8


def test_a_timeout_is_never_tried_again(slow: Slow) -> None:
    cell, first, second = slow
    first.control(stall_before_head=30)
    second.control(stall_before_head=30)
    asked = first.state().requests + second.state().requests
    try:
        answer, _ = _timed(cell, _V1, chat_body(PAIR, stream=True))
        check_openai(answer, 504, "deadline_passed")
    finally:
        first.control()
        second.control()
    assert first.state().requests + second.state().requests == asked + 1


def test_keepalive_comments_hold_the_line_until_the_first_token(patient: Slow) -> None:
    cell, _, _ = patient
    for model in (CHAT, NATIVE):
        for script in ({"stall_before_head": 2}, {"stall_before_first": 2}):
            body = {"messages": prompt(script), "stream": True}
            text = cell.run_model(model, body).text
            comments = text.count(": keepalive\n\n")
            assert 3 <= comments <= 10
            # None comes after the first event.
            assert text.startswith(": keepalive\n\n" * comments + "data: {")
            assert text.endswith("data: [DONE]\n\n")


def test_the_head_is_held_until_the_engine_has_answered(patient: Slow) -> None:
    """So that what goes wrong before is still a status, not an event."""
    cell, _, _ = patient
    answer = cell.chat(chat_body(script={"stall_before_head": 0.1, "status": 400}, stream=True))
    check_openai(answer, 400, "invalid_request")
    with RawClient(cell.gateway.port) as client:
        body = chat_body(script={"stall_before_first": 5}, stream=True)
        client.send(post_bytes(_V1, body, cell.key))
        began = time.monotonic()
        _, status, headers = client.read_head()
        assert status == 200
        check_request_id(headers)
        assert time.monotonic() - began < 0.2


def test_after_a_keepalive_errors_are_events(patient: Slow) -> None:
    cell, _, _ = patient
    body = chat_body(script={"stall_before_head": 0.5, "status": 400, "message": "no"}, stream=True)
    for path in (_V1, cell.path(f"run/{CHAT}")):
        answer = cell.post(path, body)
        assert answer.status_code == 200
        events = events_of(answer.text)
        assert json.loads(events[0])["error"]["message"] == "no"
        # Clients of `/ai/run` would take an end mark for a good end.
        assert events[1:] == ([] if path is not _V1 else ["[DONE]"])


def test_after_a_keepalive_another_replica_may_still_be_tried(patient: Slow) -> None:
    cell, first, second = patient
    for engine, other in ((first, second), (second, first)):
        engine.control(stall_before_head=0.5, cut_before_head=True)
        other.control()
        for _ in range(8):
            answer = cell.chat(new_body(PAIR, stream=True))
            assert '"error"' not in answer.text
            assert answer.text.endswith("data: [DONE]\n\n")
        cell.wait_until_idle()
    first.control()
    second.control()
    assert cell.gateway.metric("penstock_retries_total") >= 2


def test_an_answer_that_is_not_streamed_gets_no_keepalive(patient: Slow) -> None:
    cell, _, _ = patient
    answer = cell.chat(chat_body(script={"stall_before_head": 0.5}))
    assert answer.json()["object"] == "chat.completion"


def test_a_request_that_waits_for_a_slot_is_held_open_too(cells: CellFactory) -> None:
    with cells.open({"ingress.keepalive_seconds": 0.2}) as cell:
        engine = cell.set_up(CHAT, slots_live=1)
        with RawClient(cell.gateway.port) as first, RawClient(cell.gateway.port) as second:
            script = {"tokens": 20, "interval": 0.05}
            first.send(post_bytes(_V1, chat_body(script=script, stream=True), cell.key))
            first.read_until(b"data: ")
            second.send(post_bytes(_V1, chat_body(stream=True), cell.key))
            second.read_until(b": keepalive\n\n")
            assert engine.state().requests == 1
            second.read_until(b"data: [DONE]\n\n")
