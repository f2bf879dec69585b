"""Limits on what a client may send: sizes, times, numbers. Each has its row in the error table."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.integration.cells.gateway_answers import check_envelope, check_openai
from tests.integration.cells.gateway_cell import CHAT, Cell, CellFactory, chat_body, prompt
from tests.integration.cells.gateway_process import eventually
from tests.integration.cells.raw_client import RawClient, post_bytes

_BODY_MAX = 100_000
_CONNECTIONS_MAX = 40
_V1 = "/v1/chat/completions"


@pytest.fixture(scope="module")
def strict(cells: CellFactory) -> Iterator[Cell]:
    settings = {
        "ingress.body_bytes_max": _BODY_MAX,
        "ingress.bodies_bytes_max": 4 * _BODY_MAX,
        "ingress.bodies_share_per_account_max": 1.0,
        "ingress.header_bytes_max": 8192,
        "ingress.header_seconds": 1.0,
        "ingress.keep_alive_seconds": 2,
        "ingress.connections_max": _CONNECTIONS_MAX,
    }
    with cells.open(settings) as cell:
        cell.set_up(CHAT)
        yield cell


@pytest.fixture
def client(strict: Cell) -> Iterator[RawClient]:
    with RawClient(strict.gateway.port) as client:
        yield client


def _body_of(size: int) -> bytes:
    start, end = b'{"model":"%s","messages":[{"role":"user","content":"' % CHAT.encode(), b'"}]}'
    return start + b"x" * (size - len(start) - len(end)) + end


def _head(strict: Cell, target: str, *lines: str) -> bytes:
    head = [f"POST {target} HTTP/1.1", "host: x", f"authorization: Bearer {strict.key}"]
    return "\r\n".join([*head, *lines, "", ""]).encode()


def _is_cut_off(client: RawClient, data: bytes, *, pause: float, times: int) -> bool:
    """Whether the other side closes before this was sent so many times."""
    for _ in range(times):
        time.sleep(pause)
        try:
            client.send(data)
        except ConnectionError:
            return True
    return False


def test_a_body_of_exactly_the_limit_is_taken(strict: Cell) -> None:
    assert strict.post(_V1, _body_of(_BODY_MAX)).status_code == 200


def test_error_3006_content_length_over_the_limit(strict: Cell, client: RawClient) -> None:
    """Refused by its head alone: nothing of the body is waited for."""
    client.send(_head(strict, strict.path(f"run/{CHAT}"), f"content-length: {_BODY_MAX + 1}"))
    check_envelope(client.read_answer(), 413, 3006)
    assert client.is_closed()


def test_error_3006_on_v1(strict: Cell) -> None:
    check_openai(strict.post(_V1, _body_of(_BODY_MAX + 1)), 413, "body_too_large")


def test_error_3006_chunked_over_the_limit(strict: Cell, client: RawClient) -> None:
    client.send(_head(strict, strict.path(f"run/{CHAT}"), "transfer-encoding: chunked"))
    chunk = b"%x\r\n%s\r\n" % (10_000, b"x" * 10_000)
    for _ in range(11):
        client.send(chunk)
    check_envelope(client.read_answer(), 413, 3006)
    assert client.is_closed()


def test_error_3006_reaches_a_client_that_is_still_sending(strict: Cell) -> None:
    """The answer must not be lost to a reset while the rest of the body is under way."""
    answer = strict.post(_V1, _body_of(20_000_000))
    check_openai(answer, 413, "body_too_large")


def test_no_100_continue_for_a_body_that_will_be_refused(strict: Cell, client: RawClient) -> None:
    length = f"content-length: {_BODY_MAX + 1}"
    client.send(_head(strict, _V1, length, "expect: 100-continue"))
    check_openai(client.read_answer(), 413, "body_too_large")


def test_error_3006_431_headers_over_the_limit(strict: Cell, client: RawClient) -> None:
    client.send(_head(strict, strict.path(f"run/{CHAT}"), f"x-long: {'x' * 9000}"))
    check_envelope(client.read_answer(), 431, 3006)
    assert client.is_closed()


def test_431_headers_without_end(strict: Cell, client: RawClient) -> None:
    client.send(f"POST {_V1} HTTP/1.1\r\n".encode() + b"x-a: b\r\n" * 2000)
    check_openai(client.read_answer(), 431, "headers_too_large")
    assert client.is_closed()


def test_431_headers_without_end_behind_a_request_that_is_being_served(
    strict: Cell, client: RawClient
) -> None:
    """The limit also holds for what comes on a connection while its first request still runs."""
    client.send(post_bytes(_V1, chat_body(script={"stall_before_head": 3}), strict.key))
    client.send(f"POST {_V1} HTTP/1.1\r\n".encode())
    assert _is_cut_off(client, b"x-a: %s\r\n" % (b"y" * 4000), pause=0.001, times=1000)
    strict.wait_until_idle()


def test_408_half_sent_headers(strict: Cell, client: RawClient) -> None:
    client.send(f"POST {_V1} HTTP/1.1\r\nhost: x\r\n".encode())
    began = time.monotonic()
    check_openai(client.read_answer(), 408, "body_too_slow")
    assert 0.8 < time.monotonic() - began < 3
    assert client.is_closed()


def test_a_connection_that_says_nothing_is_closed(strict: Cell, client: RawClient) -> None:
    began = time.monotonic()
    assert client.is_closed()
    assert 0.8 < time.monotonic() - began < 3
    del strict


def test_an_idle_connection_is_kept_and_then_closed(strict: Cell, client: RawClient) -> None:
    client.send(post_bytes(_V1, chat_body(), strict.key))
    assert client.read_answer().status == 200
    began = time.monotonic()
    assert client.is_closed()
    assert 1.5 < time.monotonic() - began < 4


def test_error_3007_a_body_at_one_byte_a_second(strict: Cell, client: RawClient) -> None:
    client.send(_head(strict, strict.path(f"run/{CHAT}"), "content-length: 5000"))
    stop = threading.Event()

    def trickle() -> None:
        while not stop.wait(1):
            client.send(b" ")

    sender = threading.Thread(target=trickle)
    sender.start()
    began = time.monotonic()
    try:
        check_envelope(client.read_answer(), 408, 3007)
    finally:
        stop.set()
        sender.join()
    assert time.monotonic() - began < 12


def test_a_slow_body_for_a_page_does_not_hold_a_connection_for_ever(
    strict: Cell, client: RawClient
) -> None:
    head = f"GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {strict.key}\r\n"
    client.send(head.encode() + b"content-length: 5000\r\n\r\n")
    assert client.read_answer().status == 200
    assert _is_cut_off(client, b" ", pause=1, times=12)


def test_503_more_bodies_than_a_worker_may_hold(strict: Cell) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(RawClient(strict.gateway.port)) for _ in range(5)]
        for client in clients[:4]:
            client.send(_head(strict, _V1, f"content-length: {_BODY_MAX}") + b"x" * (_BODY_MAX - 1))
        eventually(lambda: strict.gateway.metric("penstock_client_connections") >= 4)
        time.sleep(0.1)
        clients[4].send(_head(strict, _V1, "content-length: 50000") + b"x" * 49_000)
        answer = clients[4].read_answer()
        check_openai(answer, 503, "overloaded", retry=True, retry_after=True)
    # What those held is free again.
    eventually(lambda: strict.gateway.metric("penstock_client_connections") == 0)
    assert strict.post(_V1, _body_of(_BODY_MAX)).status_code == 200


def test_503_more_connections_than_a_worker_may_hold(strict: Cell) -> None:
    with ExitStack() as stack:
        for _ in range(_CONNECTIONS_MAX):
            stack.enter_context(RawClient(strict.gateway.port))
        client = stack.enter_context(RawClient(strict.gateway.port))
        client.send(post_bytes(_V1, chat_body(), strict.key))
        check_openai(client.read_answer(), 503, "overloaded", retry=True, retry_after=True)
    eventually(lambda: strict.chat(chat_body()).status_code == 200)


def test_garbage_is_answered_400_and_closed(strict: Cell, client: RawClient) -> None:
    client.send(b"\x16\x03\x01\x02\x00 what is this\r\n\r\n")
    check_openai(client.read_answer(), 400, "invalid_request")
    assert client.is_closed()
    del strict


def test_a_query_of_very_many_fields_is_refused(strict: Cell) -> None:
    query = "&".join(f"a{number}=1" for number in range(500))
    answer = strict.post(strict.path(f"run/{CHAT}?{query}"), {"messages": prompt()})
    check_envelope(answer, 400, 5006)


def test_a_nonsense_host_header_does_not_matter(strict: Cell, client: RawClient) -> None:
    client.send(b"GET /nothing HTTP/1.1\r\nhost: [::1\r\n\r\n")
    check_openai(client.read_answer(), 404, "not_found")
    client.send(post_bytes(_V1, chat_body(), strict.key, headers={"host": "[::1"}))
    assert client.read_answer().status == 200


@pytest.mark.parametrize("target", ["//", "/v1/%", "http://[/v1/models", "/\x7f", "*"])
def test_a_nonsense_target_is_refused_in_order(
    strict: Cell, client: RawClient, target: str
) -> None:
    client.send(f"GET {target} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    answer = client.read_answer()
    assert answer.status in {400, 404}
    assert answer.json()["error"]["code"] in {"invalid_request", "not_found"}
    del strict


def test_an_upgrade_is_ignored(strict: Cell, client: RawClient) -> None:
    """Java's client asks for h2c with every request, and must get a plain answer."""
    upgrade = {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2-settings": "AA"}
    client.send(post_bytes(_V1, chat_body(), strict.key, headers=upgrade))
    answer = client.read_answer()
    assert (answer.status, answer.headers["connection"]) == (200, "close")
    with RawClient(strict.gateway.port) as other:
        lines = "connection: upgrade\r\nupgrade: websocket\r\n"
        other.send(f"GET /healthz HTTP/1.1\r\nhost: x\r\n{lines}\r\n".encode())
        assert other.read_answer().status == 200


def test_connect_is_refused(strict: Cell, client: RawClient) -> None:
    client.send(b"CONNECT example.org:443 HTTP/1.1\r\nhost: example.org\r\n\r\n")
    check_openai(client.read_answer(), 400, "invalid_request")
    del strict
