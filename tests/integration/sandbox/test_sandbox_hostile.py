"""Hostile clients of a sandbox host: no token, odd requests, too much, too slow, too many."""

import time
from collections.abc import Iterator

import pytest
from tests.integration.cells.raw_client import RawClient
from tests.integration.hostile.hostile_caller import Caller
from tests.integration.hostile.smuggling_cases import CASES, Parts
from tests.integration.sandbox.host_process import TOKEN, SandboxHost, call, sandbox_host

_KEY = f"authorization: Bearer {TOKEN}\r\n".encode()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxHost]:
    """One process for all: none of these tests may harm it."""
    bounds = {
        "warm": 0,
        "body_bytes_max": 65_536,
        "connections_max": 20,
        "header_bytes_max": 8192,
        "header_seconds": 1.0,
        "body_seconds": 1.0,
        "client_stall_seconds": 1.0,
        "keep_alive_seconds": 2,
    }
    with sandbox_host(tmp_path_factory.mktemp("sandbox"), "--dev", **bounds) as host:
        yield host


@pytest.fixture(autouse=True)
def _still_serves(host: SandboxHost) -> Iterator[None]:
    yield
    assert host.status().containers == 0
    assert "Traceback" not in host.log


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_smuggled(host: SandboxHost, name: str) -> None:
    """No path of these cases is served here: whatever is sent, each answer is a refusal."""
    with RawClient(host.port, seconds=12) as client:
        client.send(CASES[name](Parts(Caller("0" * 32, TOKEN))))
        client.socket.shutdown(1)
        text = client.read_to_the_end()
    assert b" 200 OK" not in text
    assert text.count(b"HTTP/1.1 ") <= 3


@pytest.mark.parametrize(
    "head",
    [
        b"GET /status HTTP/1.1\r\nhost: x\r\n",
        b"GET /status HTTP/1.1\r\nhost: x\r\n" + _KEY + _KEY,
        b"GET /status HTTP/1.1\r\nhost: x\r\nauthorization: Basic " + TOKEN.encode() + b"\r\n",
        b"GET /status HTTP/1.1\r\nhost: x\r\n" + _KEY.replace(b"\r\n", b"x\r\n"),
        b"GET /status HTTP/1.1\r\nhost: x\r\n" + _KEY[:-3] + b"\r\n",
        b"TRACE /status HTTP/1.1\r\nhost: x\r\n",
    ],
)
def test_no_other_token_is_taken(host: SandboxHost, head: bytes) -> None:
    with RawClient(host.port) as client:
        client.send(head + b"\r\n")
        answer = client.read_answer()
    assert answer.status == 401
    assert answer.json()["code"] == "unauthorized"


@pytest.mark.parametrize(
    "line", [b"GET http://[ HTTP/1.1", b"CONNECT x:1 HTTP/1.1", b"GET \xff HTTP/1.1", b"\0\0", b"G"]
)
def test_what_is_no_request_is_refused(host: SandboxHost, line: bytes) -> None:
    with RawClient(host.port) as client:
        client.send(line + b"\r\nhost: x\r\n\r\n")
        text = client.read_to_the_end()
    assert text.startswith((b"HTTP/1.1 400 ", b"HTTP/1.1 401 ")), text


def test_heads_are_bounded_in_size_and_time(host: SandboxHost) -> None:
    long = b"GET /status HTTP/1.1\r\nhost: x\r\nx-long: " + b"x" * 9000
    for data in (long, long + b"\r\n\r\n"):
        with RawClient(host.port) as client:
            client.send(data)
            assert client.read_head()[1] == 431
    for data in (b"", b"GET /status HTTP/1.1\r\nhost: x\r\n"):
        began = time.monotonic()
        with RawClient(host.port) as client:
            client.send(data)
            assert client.is_closed()
        assert 0.8 < time.monotonic() - began < 3
    with RawClient(host.port) as client:
        # A byte now and then does not put the end off.
        began = time.monotonic()
        assert _is_cut_off(client, b"G", b"E")
        assert time.monotonic() - began < 3


def _is_cut_off(client: RawClient, first: bytes, more: bytes) -> bool:
    """Send more ten times a second, for five seconds; return whether that fails."""
    client.send(first)
    try:
        for _ in range(50):
            time.sleep(0.1)
            client.send(more)
    except (BrokenPipeError, ConnectionResetError):
        return True
    return False


def test_bodies_are_bounded_in_size_and_time(host: SandboxHost) -> None:
    path = f"/containers/{'0' * 32}"
    assert host.client.post(path, content=b" " * 70_000).status_code == 413
    assert host.client.post(path, content=(b" " * 7000 for _ in range(10))).status_code == 413
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n".encode()
    for key in (_KEY, b""):
        began = time.monotonic()
        with RawClient(host.port) as client:
            client.send(head + key + b"\r\n{")
            assert client.read_head()[1] == (400 if key else 401)
            client.read_to_the_end()
        assert time.monotonic() - began < 6
    # Trailers without end are not read for long.
    chunked = head.replace(b"content-length: 100", b"transfer-encoding: chunked")
    with RawClient(host.port) as client:
        assert _is_cut_off(client, chunked + _KEY + b"\r\n0\r\n", b"x-trailer: xxxxxxxx\r\n" * 50)


def test_connections_have_a_number(host: SandboxHost) -> None:
    held = [RawClient(host.port) for _ in range(30)]
    try:
        statuses = []
        for each in held:
            each.send(b"GET /status HTTP/1.1\r\nhost: x\r\n\r\n")
            statuses.append(each.read_head()[1])
        assert statuses.count(503) >= 10
    finally:
        for each in held:
            each.close()
    crowd = []
    try:
        crowd = [RawClient(host.port) for _ in range(60)]
        time.sleep(0.3)
        assert any(each.is_closed() for each in crowd[-10:])
    finally:
        for each in crowd:
            each.close()
    time.sleep(0.3)


def test_pipelined_requests_are_answered_in_their_order(host: SandboxHost) -> None:
    good = b"GET /status HTTP/1.1\r\nhost: x\r\n" + _KEY + b"\r\n"
    bad = b"GET /nothing HTTP/1.1\r\nhost: x\r\n" + _KEY + b"\r\n"
    with RawClient(host.port) as client:
        client.send((good + bad) * 50)
        assert [client.read_answer().status for _ in range(100)] == [200, 404] * 50


def test_a_client_that_reads_nothing_is_dropped_and_its_call_goes_on(host: SandboxHost) -> None:
    id = host.open()
    body = b'{"call_id": "c", "code": "print(\'x\' * 3_000_000); done = 1"}'
    length = b"content-length: %d\r\n\r\n" % len(body)
    head = f"POST /containers/{id}/exec HTTP/1.1\r\nhost: x\r\n".encode()
    with RawClient(host.port, receive_bytes=4096) as client:
        client.send(head + _KEY + length + body)
        time.sleep(2.5)
        assert not client.read_to_the_end().endswith(b"0\r\n\r\n")
    assert b'"text":"1"' in host.client.post(f"/containers/{id}/exec", json=call("done")).content
    host.client.delete(f"/containers/{id}")
