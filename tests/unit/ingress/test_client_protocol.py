"""One connection, without a network: what comes in on it, and how long its client has."""

import pytest
from tests.unit.ingress.client_on_wire import STALL_SECONDS, Client, post, run

PAGE = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
UPGRADE = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n"


@pytest.mark.parametrize(
    "sent",
    [PAGE, PAGE * 3, PAGE[:-5], post(b"known"), post(b"ab")[:-1], post(b"x", lines=b"a: b\r\n")],
    ids=["page", "pages", "half a head", "known head", "half a body", "other head"],
)
def test_time_of_who_does_not_read_runs_on_whatever_it_sends(sent: bytes) -> None:
    """What was in the kernel's buffers comes in even from a client that is not read from."""

    async def test(client: Client) -> None:
        await client.send(post(b"first"))
        await client.send(PAGE * 2)
        assert client.answers == 3
        client.protocol.pause_writing()
        client.wait(STALL_SECONDS - 1)
        await client.send(sent)
        client.wait(0.5)
        assert not client.wire.is_over
        client.wait(1)
        assert client.wire.is_aborted

    run(test)


def test_who_has_read_may_take_its_time_again() -> None:
    async def test(client: Client) -> None:
        await client.send(PAGE)
        client.protocol.pause_writing()
        client.wait(STALL_SECONDS - 1)
        client.protocol.resume_writing()
        client.wait(STALL_SECONDS)
        assert not client.wire.is_over
        await client.send(PAGE)
        assert client.answers == 2

    run(test)


@pytest.mark.parametrize("cut", [0, 1, 30, 150])
@pytest.mark.parametrize("before", [b"", PAGE, post(b"first"), PAGE + post(b"first") + PAGE])
def test_request_that_asks_for_another_protocol_is_read_as_any(before: bytes, cut: int) -> None:
    """Alone or behind others, in one read or two: its body is taken, and it is the last."""

    async def test(client: Client) -> None:
        data = before + post(b"hello", lines=UPGRADE)
        for part in (data[:cut], data[cut:]) if cut else (data,):
            await client.send(part)
        assert client.connections.bodies[-1] == b"hello"
        assert client.answers == before.count(b"host: x") + 1
        assert client.wire.written.count(b"connection: close\r\n") == 1
        assert client.wire.is_over

    run(test)


@pytest.mark.parametrize("before", [b"", PAGE])
def test_page_that_is_asked_for_another_protocol_gets_its_body(before: bytes) -> None:
    async def test(client: Client) -> None:
        await client.send(before + post(b"hello", target=b"/v1/batches", lines=UPGRADE))
        assert client.pages[-1] == b"hello"
        assert client.wire.is_over

    run(test)


@pytest.mark.parametrize("version", [b"1.0", b"1.1", b"2.0"])
@pytest.mark.parametrize("more", [b"", b"proxy-connection: keep-alive\r\n"])
def test_of_many_that_ask_for_another_protocol_the_first_is_served(
    version: bytes, more: bytes
) -> None:
    """None is read more than twice: else a read full of them would be copied for each."""

    async def test(client: Client) -> None:
        await client.send(post(b"hello", lines=UPGRADE + more, version=version) * 2000)
        assert client.connections.bodies == [b"hello"]
        assert client.answers == 1
        assert client.wire.is_over

    run(test)


def test_tunnel_is_not_read_twice() -> None:
    async def test(client: Client) -> None:
        await client.send(PAGE + b"CONNECT /healthz HTTP/1.1\r\nhost: x\r\n\r\n" + PAGE)
        assert client.answers == 2
        assert client.wire.is_over

    run(test)


@pytest.mark.parametrize("first", [PAGE, post(b"first")], ids=["page", "hot"])
@pytest.mark.parametrize("stray", [b"\x00", b"GARBAGE\r\n", PAGE[:10] + b"\x00"])
def test_what_came_before_a_stray_byte_is_answered_and_then_closed(
    first: bytes, stray: bytes
) -> None:
    async def test(client: Client) -> None:
        await client.send(first * 3 + stray)
        assert client.answers == 3
        assert client.wire.written.count(b"HTTP/1.1 ") == 3
        assert client.wire.is_over

    run(test)


def test_request_that_breaks_behind_others_is_dropped_and_they_are_answered() -> None:
    chunked = b"POST /v1/messages HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"

    async def test(client: Client) -> None:
        await client.send(post(b"a") + PAGE + post(b"b") + chunked + b"3\r\nabcX")
        assert client.answers == 3
        assert client.connections.bodies == [b"a", b"b"]
        assert client.wire.is_over

    run(test)


def test_page_that_is_refused_while_its_body_comes_is_told_why() -> None:
    async def test(client: Client) -> None:
        head = b"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n"
        await client.send(head + b"x" * 1000)
        for _ in range(3):
            client.wait(6)
        assert client.connections.refused == [408]
        assert client.wire.is_over
        assert client.pages == []

    run(test)


def test_bodies_of_pages_count_until_they_are_read() -> None:
    async def test(client: Client) -> None:
        budget = client.connections.body_budget
        head = b"POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n"
        client.protocol.data_received(head + b"x" * 60_000)
        assert budget.held_bytes == 60_000
        await client.send(b"x" * 40_000)
        assert client.answers == 1
        assert budget.held_bytes == 0

    run(test)
