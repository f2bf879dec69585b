"""HTTP/1.1 as clients really speak it: old versions, pipelines, Expect, kept connections."""

import json
import time

import pytest
from tests.integration.cells.gateway_answers import check_openai, check_request_id
from tests.integration.cells.gateway_cell import CHAT, Cell, chat_body, events_of, prompt
from tests.integration.cells.raw_client import RawClient, post_bytes

from penstock.testing import ScriptedEngine

_V1 = "/v1/chat/completions"


@pytest.fixture
def client(cell: Cell, engine: ScriptedEngine) -> RawClient:
    del engine
    return RawClient(cell.gateway.port)


def _get(path: str, cell: Cell) -> bytes:
    head = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {cell.key}\r\n\r\n"
    return head.encode()


def test_http_1_0_gets_an_answer_and_the_end_of_the_connection(
    cell: Cell, client: RawClient
) -> None:
    with client:
        client.send(post_bytes(_V1, chat_body(), cell.key, version="1.0"))
        answer = client.read_answer()
        assert answer.status == 200
        assert answer.json()["object"] == "chat.completion"
        assert answer.headers["connection"] == "close"
        assert client.is_closed()


def test_http_1_0_gets_a_stream_without_chunks(cell: Cell, client: RawClient) -> None:
    with client:
        client.send(post_bytes(_V1, chat_body(stream=True), cell.key, version="1.0"))
        _, status, headers = client.read_head()
        assert status == 200
        assert "transfer-encoding" not in headers
        assert headers["connection"] == "close"
        text = client.read_to_the_end().decode()
    assert text.startswith("data: {")
    assert text.endswith("data: [DONE]\n\n")


def test_http_1_0_gets_error_events_without_chunks(cell: Cell, client: RawClient) -> None:
    with client:
        body = chat_body(script={"cut_after": 3}, stream=True)
        client.send(post_bytes(_V1, body, cell.key, version="1.0"))
        client.read_head()
        events = events_of(client.read_to_the_end().decode())
    assert json.loads(events[-2])["error"]["code"] == "engine_lost"
    assert events[-1] == "[DONE]"
    cell.wait_until_idle()


def test_one_connection_serves_many_requests(cell: Cell, client: RawClient) -> None:
    ids = set()
    with client:
        for turn in range(10):
            client.send(post_bytes(_V1, chat_body(stream=turn % 2 == 1), cell.key))
            answer = client.read_answer()
            assert answer.status == 200
            assert "connection" not in answer.headers
            ids.add(check_request_id(answer.headers))
            client.send(_get("/v1/models", cell))
            assert client.read_answer().status == 200
            client.send(post_bytes(_V1, chat_body("nobody"), cell.key))
            check_openai(client.read_answer(), 404, "model_not_found")
    assert len(ids) == 10


def test_heads_that_are_nearly_the_same_are_told_apart(cell: Cell, client: RawClient) -> None:
    """From the second one on they are compared with the last, not parsed."""
    usual = {"x-session-id": "one", "x-request-id": "a"}
    heads = [
        (cell.key, usual, 200),
        (cell.key, usual, 200),
        (cell.key, {**usual, "x-request-id": "b"}, 200),
        (cell.key, {**usual, "x-request-id": "longer"}, 200),
        ("x" * len(cell.key), usual, 401),
        (cell.key, usual, 200),
        ("y" * len(cell.key), {**usual, "x-request-id": "c"}, 401),
        (cell.key, {**usual, "content-encoding": "gzip"}, 400),
        (cell.key, {**usual, "x-request-id": "d"}, 200),
    ]
    with client:
        for turn, (key, headers, status) in enumerate(heads):
            body = json.dumps(chat_body()).encode() + b" " * turn
            client.send(post_bytes(_V1, body, key, headers=headers))
            answer = client.read_answer()
            assert answer.status == status
            assert answer.headers["x-caller-request-id"] == headers["x-request-id"]


def test_head_behind_another_in_two_reads_is_not_taken_for_the_last(
    cell: Cell, client: RawClient
) -> None:
    ours = post_bytes(_V1, chat_body(), cell.key)
    wrong = post_bytes(_V1, chat_body(), "x" * len(cell.key))
    with client:
        for data, status in ((ours, 200), (ours + wrong[:70], 200)):
            client.send(data)
            assert client.read_answer().status == status
        client.send(wrong[70:])
        assert client.read_answer().status == 401
        for data, status in ((ours, 200), (wrong, 401), (ours, 200)):
            client.send(data)
            assert client.read_answer().status == status


@pytest.mark.parametrize("stream", [False, True])
def test_connection_close_is_obeyed(cell: Cell, client: RawClient, stream: bool) -> None:
    with client:
        headers = {"connection": "close"}
        client.send(post_bytes(_V1, chat_body(stream=stream), cell.key, headers=headers))
        answer = client.read_answer()
        assert answer.status == 200
        assert answer.headers["connection"] == "close"
        assert client.is_closed()


def test_pipelined_requests_are_answered_in_order(cell: Cell, client: RawClient) -> None:
    """Streams, whole answers, pages and errors behind each other, all sent at once."""
    texts = [f"number {number}" for number in range(5)]
    requests = b""
    for number, text in enumerate(texts):
        # The first takes longest, so that order is not luck.
        pause = 0.3 if number == 0 else 0.0
        script = {"text": text, "stall_before_head": pause}
        body = chat_body(script=script, stream=number % 2 == 1)
        requests += post_bytes(_V1, body, cell.key) + _get("/healthz", cell)
    requests += post_bytes(_V1, chat_body("nobody"), cell.key)
    with client:
        client.send(requests)
        for number, text in enumerate(texts):
            answer = client.read_answer()
            if number % 2 == 1:
                events = [json.loads(event) for event in events_of(answer.body.decode())[:-1]]
                deltas = [event["choices"][0]["delta"].get("content") or "" for event in events]
                assert "".join(deltas) == text
            else:
                assert answer.json()["choices"][0]["message"]["content"] == text
            assert client.read_answer().json() == {"status": "ok"}
        check_openai(client.read_answer(), 404, "model_not_found")


def test_a_pipelined_body_that_comes_later_waits_for_its_turn(
    cell: Cell, client: RawClient
) -> None:
    first = post_bytes(_V1, chat_body(script={"stall_before_head": 0.3}), cell.key)
    second = post_bytes(_V1, chat_body(script={"text": "second"}), cell.key)
    with client:
        client.send(first + second[:-20])
        assert client.read_answer().status == 200
        time.sleep(0.1)
        client.send(second[-20:])
        answer = client.read_answer().json()
        assert answer["choices"][0]["message"]["content"] == "second"


@pytest.mark.parametrize("path", ["chat", "page"])
def test_expect_100_continue(cell: Cell, client: RawClient, path: str) -> None:
    if path == "chat":
        whole = post_bytes(_V1, chat_body(), cell.key, headers={"expect": "100-continue"})
    else:
        whole = post_bytes("/v1/nothing", {}, cell.key, headers={"expect": "100-Continue"})
    head, _, body = whole.partition(b"\r\n\r\n")
    with client:
        client.send(head + b"\r\n\r\n")
        if path == "chat":
            assert client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
            client.send(body)
            assert client.read_answer().status == 200
        else:
            assert client.read_answer().status == 404


def test_a_request_may_come_byte_by_byte(cell: Cell, client: RawClient) -> None:
    with client:
        for byte in post_bytes(_V1, chat_body(), cell.key):
            client.send(bytes([byte]))
        assert client.read_answer().status == 200


def test_a_chunked_body_is_taken(cell: Cell, client: RawClient) -> None:
    content = json.dumps(chat_body()).encode()
    chunks = b"".join(b"%x;a=b\r\n%c\r\n" % (1, byte) for byte in content) + b"0\r\nx-t: 1\r\n\r\n"
    head = f"POST {_V1} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {cell.key}\r\n"
    with client:
        client.send(head.encode() + b"transfer-encoding: chunked\r\n\r\n" + chunks)
        assert client.read_answer().status == 200


@pytest.mark.parametrize(
    "header", ["Authorization: bearer {}", "AUTHORIZATION: Bearer  {}", "X-API-Key: {}"]
)
def test_the_key_is_found_however_it_is_sent(cell: Cell, client: RawClient, header: str) -> None:
    content = json.dumps(chat_body()).encode()
    lines = [f"POST {_V1} HTTP/1.1", "host: x", header.format(cell.key)]
    head = "\r\n".join([*lines, f"content-length: {len(content)}", "", ""])
    with client:
        client.send(head.encode() + content)
        assert client.read_answer().status == 200


def test_two_lengths_and_smuggled_requests_are_refused(cell: Cell, client: RawClient) -> None:
    head = f"POST {_V1} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {cell.key}\r\n"
    with client:
        both = "content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"
        client.send((head + both).encode() + _get("/healthz", cell))
        check_openai(client.read_answer(), 400, "invalid_request")
        assert client.is_closed()


def test_a_trailing_query_is_no_part_of_the_model(cell: Cell) -> None:
    assert cell.run_model(f"{CHAT}?", {"messages": prompt()}).status_code == 200
    assert cell.run_model(f"{CHAT}?tags=a/b", {"messages": prompt()}).status_code == 200


def test_head_and_options_are_answered(cell: Cell) -> None:
    answer = cell.client.head(cell.gateway.url + "/healthz")
    assert (answer.status_code, answer.content) == (200, b"")
    answer = cell.client.options(cell.gateway.url + _V1)
    check_openai(answer, 405, "method_not_allowed")
