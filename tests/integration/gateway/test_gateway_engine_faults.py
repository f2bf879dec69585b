"""Engines that die, cut, lie or talk nonsense: what the client sees, where the next one goes."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai
from tests.integration.cells.gateway_cell import (
    ABSENT,
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
from tests.integration.cells.gateway_process import eventually, free_port
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.fleet.workers import LeftOut, WorkerTable, left_out
from penstock.store import Store, StoreSettings
from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"
Engines = tuple[Cell, ScriptedEngine, ScriptedEngine]


@pytest.fixture(scope="module")
def engines(cells: CellFactory) -> Iterator[Engines]:
    """CHAT, PLAIN and NATIVE have one replica, PAIR has two on two engines."""
    settings = {"engine.event_bytes_max": 100_000, "engine.answer_bytes_max": 6_000_000}
    with cells.open(settings) as cell:
        first = cell.set_up(CHAT, PLAIN, NATIVE, PAIR)
        second = cell.add_engine()
        cell.enroll(second.url, PAIR)
        cell.wait_for_replicas(PAIR, 2)
        yield cell, first, second


@pytest.fixture
def pair(engines: Engines) -> Iterator[Engines]:
    yield engines
    engines[1].control()
    engines[2].control()
    engines[0].wait_until_idle()


@pytest.fixture
def cell(engines: Engines) -> Iterator[Cell]:
    yield engines[0]
    engines[0].wait_until_idle()


def _check_cut_stream(answer: httpx.Response, code: str) -> None:
    """Data, then one well-formed error event, then [DONE]."""
    assert answer.status_code == 200
    events = events_of(answer.text)
    assert events[-1] == "[DONE]"
    error = json.loads(events[-2])["error"]
    assert error["code"] == code
    assert error["request_id"] == answer.headers["x-request-id"]
    assert len(events) > 2
    assert all("error" not in json.loads(event) for event in events[:-2])


@pytest.mark.parametrize("fault", ["cut_after", "close_after"])
def test_an_engine_lost_in_midstream_is_an_error_event(cell: Cell, fault: str) -> None:
    answer = cell.chat(chat_body(script={"tokens": 20, fault: 5}, stream=True))
    _check_cut_stream(answer, "engine_lost")
    line = cell.gateway.request_line(answer.headers["x-request-id"])
    assert (line["outcome"], line["error"], line["attempts"]) == ("failed", "engine_lost", 1)


def test_a_stream_without_done_is_an_error_event(cell: Cell) -> None:
    answer = cell.chat(chat_body(script={"no_done": True}, stream=True))
    _check_cut_stream(answer, "engine_lost")


def test_an_engine_killed_in_midstream_and_the_next_request_goes_elsewhere(
    cells: CellFactory,
) -> None:
    with cells.open() as cell:
        cell.set_up(PAIR)
        doomed = cell.add_engine()
        replica = cell.enroll(doomed.url, PAIR)
        cell.wait_for_replicas(PAIR, 2)
        clients = [RawClient(cell.gateway.port) for _ in range(2)]
        for client in clients:
            body = new_body(PAIR, {"tokens": 1000, "interval": 0.02}, stream=True)
            client.send(post_bytes(_V1, body, cell.key))
            client.read_until(b"data: ")
        assert doomed.state().running == 1
        began = time.monotonic()
        doomed.kill()
        ended = [client for client in clients if _ends_soon(client)]
        assert len(ended) == 1
        assert time.monotonic() - began < 3
        for _ in range(6):
            answer = cell.chat(new_body(PAIR))
            assert answer.status_code == 200
            line = cell.gateway.request_line(answer.headers["x-request-id"])
            assert line["replica"] != replica.id
            assert line["attempts"] == 1
        assert cell.gateway.metric("penstock_ejected_replicas") == 1
        for client in clients:
            client.close()


def _ends_soon(client: RawClient) -> bool:
    """Whether the stream ends with an error event and [DONE] within a second."""
    client.socket.settimeout(1.0)
    received = b""
    deadline = time.monotonic() + 1.0
    while time.monotonic() < deadline:
        received += client.read_some()
        if received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
            assert b'{"error":{"message":"The engine went away' in received
            return True
    return False


@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_that_dies_before_the_first_byte_goes_unnoticed(
    cells: CellFactory, stream: bool
) -> None:
    with cells.open() as cell:
        cell.set_up(PAIR)
        doomed = cell.add_engine()
        cell.enroll(doomed.url, PAIR)
        cell.wait_for_replicas(PAIR, 2)
        doomed.control(die_before_head=True)
        statuses, attempts = [], []
        for _ in range(16):
            answer = cell.chat(new_body(PAIR, stream=stream))
            statuses.append(answer.status_code)
            assert not stream or answer.text.endswith("data: [DONE]\n\n")
            assert '"error"' not in answer.text
            line = cell.gateway.request_line(answer.headers["x-request-id"])
            attempts.append(line["attempts"])
        assert statuses == [200] * 16
        # It died of the first request that it got, and got no other.
        assert sorted(attempts) == [1] * 15 + [2]
        assert doomed.wait(5) == -9
        assert cell.gateway.metric("penstock_retries_total") == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "fault",
    [{"cut_before_head": True}, {"status": 503}, {"close_after": 0}],
    ids=["reset", "busy", "closed after its head"],
)
def test_another_replica_takes_what_one_did_not(
    pair: Engines, fault: dict[str, Any], stream: bool
) -> None:
    cell, first, second = pair
    first.control(**fault)
    for _ in range(16):
        answer = cell.chat(new_body(PAIR, stream=stream))
        assert answer.status_code == 200
        assert '"error"' not in answer.text
    assert first.state().requests > 0
    assert second.state().requests > 0


def test_a_refused_connection_is_tried_elsewhere(pair: Engines) -> None:
    cell, _, _ = pair
    nobody = cell.enroll(f"http://127.0.0.1:{free_port()}", PAIR)
    cell.wait_for_replicas(PAIR, 3)
    for _ in range(24):
        assert cell.chat(new_body(PAIR)).status_code == 200
    assert cell.gateway.metric("penstock_ejected_replicas") == 1
    cell.withdraw(nobody)
    cell.wait_for_replicas(PAIR, 2)


def test_an_ejected_replica_comes_back_when_it_is_healthy(pair: Engines) -> None:
    cell, first, second = pair
    first.control(cut_before_head=True, healthy=False)
    for _ in range(16):
        assert cell.chat(new_body(PAIR)).status_code == 200
    asked = first.state().requests
    for _ in range(16):
        assert cell.chat(new_body(PAIR)).status_code == 200
    assert first.state().requests == asked
    assert cell.gateway.metric("penstock_ejected_replicas") == 1
    # Operators learn of it by the worker's next report.
    eventually(lambda: [each.workers for each in _left_out(cell.dsn).values()] == [1], seconds=10)
    first.control()
    eventually(lambda: cell.gateway.metric("penstock_ejected_replicas") == 0)
    before = second.state().requests
    for _ in range(16):
        assert cell.chat(new_body(PAIR)).status_code == 200
    assert first.state().requests > asked
    assert second.state().requests > before


def _left_out(dsn: str) -> dict[str, LeftOut]:
    async def read() -> dict[str, LeftOut]:
        store = Store(StoreSettings(dsn=dsn))
        await store.open()
        try:
            return left_out(await WorkerTable(store).read())
        finally:
            await store.close()

    return asyncio.run(read())


def test_503_of_every_replica_is_429_and_3040(pair: Engines) -> None:
    cell, first, second = pair
    first.control(status=503)
    second.control(status=503)
    answer = cell.run_model(PAIR, {"messages": prompt()})
    check_envelope(answer, 429, 3040, retry=True, retry_after=True)


def test_503_of_the_only_replica_is_429_and_3040(cell: Cell) -> None:
    answer = cell.run_model(CHAT, {"messages": prompt({"status": 503})})
    check_envelope(answer, 429, 3040, retry=True, retry_after=True)


@pytest.mark.parametrize("stream", [False, True])
def test_the_only_replica_resets_before_answering(cell: Cell, stream: bool) -> None:
    answer = cell.chat(chat_body(script={"cut_before_head": True}, stream=stream))
    message = check_openai(answer, 503, "replica_unreachable", retry=True, retry_after=True)
    # Where engines live is not the caller's business.
    assert "127.0.0.1" not in message


def test_the_only_replica_refuses_connections(cell: Cell) -> None:
    nobody = cell.enroll(f"http://127.0.0.1:{free_port()}", ABSENT)
    cell.wait_for_replicas(ABSENT, 1)
    answer = cell.chat(chat_body(ABSENT))
    message = check_openai(answer, 503, "replica_unreachable", retry=True, retry_after=True)
    assert "127.0.0.1" not in message
    cell.withdraw(nobody)
    cell.wait_for_replicas(ABSENT, 0)


def test_work_that_began_and_was_lost_is_not_to_be_repeated(cell: Cell) -> None:
    """The engine's answer was cut: whoever asks again pays again, so the SDKs are told not to."""
    answer = cell.chat(chat_body(script={"cut_after": 10}))
    check_openai(answer, 502, "engine_lost")
    answer = cell.run_model(CHAT, {"messages": prompt({"cut_after": 10})})
    check_envelope(answer, 502, 5001)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", ["garbage", "garbage_json"])
def test_nonsense_is_a_502(cell: Cell, fault: str, stream: bool) -> None:
    body = {"messages": prompt({fault: True}), "stream": stream}
    check_openai(cell.chat({"model": CHAT, **body}), 502, "engine_failed")
    check_envelope(cell.run_model(CHAT, body), 500, 5001)
    check_envelope(cell.run_model(NATIVE, body), 500, 5001)


_RAW_ANSWERS = {
    "not a number": b"HTTP/1.1 abc OK\r\n\r\n",
    "a switch": b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    "a bad chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    "no object": b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n1234",
    "nothing": b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
    "half": b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{",
    "half a head": b"HTTP/1.1 200 OK\r\ncontent-le",
    "a redirect": b"HTTP/1.1 302 Found\r\nlocation: http://a/\r\ncontent-length: 0\r\n\r\n",
    "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "odd error": b'HTTP/1.1 400 Bad\r\ncontent-length: 13\r\n\r\n{"error":"no"}'[:-1],
}


@pytest.mark.parametrize("name", _RAW_ANSWERS)
def test_whatever_an_engine_sends_there_is_an_answer(cell: Cell, name: str) -> None:
    raw = base64.b64encode(_RAW_ANSWERS[name]).decode()
    for model in (CHAT, NATIVE):
        for stream in (False, True):
            answer = cell.run_model(model, {"messages": prompt({"raw": raw}), "stream": stream})
            assert answer.status_code in {400, 500, 502, 503}, answer.text
            number = answer.json()["errors"][0]["code"]
            assert number in {5001, 5006, 3040}
            assert number != 8005


def test_an_answer_of_another_shape_is_a_failure_for_native_models(cell: Cell) -> None:
    for content in (b"{}", b'{"choices":[]}', b'{"choices":[{"message":{"content":{}}}]}'):
        head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(content)
        raw = base64.b64encode(head + content).decode()
        check_envelope(cell.run_model(NATIVE, {"messages": prompt({"raw": raw})}), 500, 5001)


def test_a_deeply_nested_answer_in_json_mode_does_not_hang(cell: Cell) -> None:
    text = "[" * 3000 + "]" * 3000
    body = {"messages": prompt({"text": text}), "response_format": {"type": "json_object"}}
    answer = cell.run_model(NATIVE, body)
    assert answer.status_code == 200
    assert answer.json()["result"]["response"] == text


def test_a_garbled_event_passes_and_the_stream_goes_on(cell: Cell) -> None:
    """Events are not parsed on their way: the caller sees what the engine said (rule 5)."""
    body = chat_body(script={"garbage_sse_after": 2, "tokens": 6}, stream=True)
    events = events_of(cell.chat(body).text)
    assert events[2].startswith('{"id":"chatcmpl-garbage"')
    assert events[-1] == "[DONE]"
    native = cell.run_model(NATIVE, {**body, "model": NATIVE}).text
    assert "garbage" not in native
    assert native.endswith("data: [DONE]\n\n")


def test_an_error_event_of_the_engine_reaches_the_caller(cell: Cell) -> None:
    for model in (CHAT, NATIVE):
        body = chat_body(model, {"error_after": 3, "tokens": 9}, stream=True)
        for answer in (cell.chat(body), cell.run_model(model, body)):
            events = events_of(answer.text)
            assert json.loads(events[-2])["error"]["code"] == 500
            assert events[-1] == "[DONE]"


def test_a_huge_event_is_an_error_event(cell: Cell) -> None:
    answer = cell.chat(chat_body(script={"huge_line": 1_000_000}, stream=True))
    _check_cut_stream(answer, "engine_failed")
    answer = cell.chat(chat_body(script={"huge_line": 90_000}, stream=True))
    assert "x" * 90_000 in answer.text


def test_a_large_answer_that_is_not_streamed(cell: Cell) -> None:
    body = chat_body(script={"huge_line": 5_000_000})
    for model in (CHAT, NATIVE):
        assert len(cell.run_model(model, {**body, "model": model}).content) > 5_000_000
    answer = cell.chat(chat_body(script={"huge_line": 7_000_000}))
    check_openai(answer, 502, "engine_failed")


def test_a_kept_connection_that_the_engine_closed_is_not_noticed(cells: CellFactory) -> None:
    """The engine restarts on its port: the connection that was kept to it is dead."""
    with cells.open({"engine.idle_seconds": 60.0}) as cell:
        engine = cell.set_up(CHAT)
        assert cell.chat(chat_body()).status_code == 200
        port = engine.port
        for stream in (False, True):
            engine.kill()
            engine = cell.add_engine(port=port)
            answer = cell.chat(chat_body(stream=stream))
            assert answer.status_code == 200
            assert '"error"' not in answer.text
            line = cell.gateway.request_line(answer.headers["x-request-id"])
            assert line["attempts"] == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_kept_connection_that_is_cut_when_it_is_used_again(pair: Engines, stream: bool) -> None:
    """Nothing was answered on it, so that the request is sent once more, on a new one."""
    cell, engine, _ = pair
    assert cell.chat(chat_body(PLAIN)).status_code == 200
    engine.control(cut_before_head=True, times=1)
    asked = engine.state().requests
    answer = cell.chat(chat_body(PLAIN, stream=stream))
    assert answer.status_code == 200
    assert '"error"' not in answer.text
    assert engine.state().requests == asked + 2
    assert cell.gateway.request_line(answer.headers["x-request-id"])["attempts"] == 1
    assert cell.gateway.metric("penstock_ejected_replicas") == 0


def test_error_that_the_engine_says_in_a_stream_counts_as_a_failure(cell: Cell) -> None:
    answer = cell.chat({**chat_body(script={"error_after": 2, "tokens": 6}), "stream": True})
    assert events_of(answer.text)[-1] == "[DONE]"
    line = cell.gateway.request_line(answer.headers["x-request-id"])
    assert (line["outcome"], line["error"]) == ("failed", "engine_failed")
