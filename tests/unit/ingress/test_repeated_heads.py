"""Requests whose heads repeat on one connection: each is served as if it were the first there."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.ingress.client_on_wire import Client, post, run

from penstock.ingress.http.exchange import Exchange
from penstock.ingress.settings import IngressSettings

Seen = tuple[bytes, list[tuple[bytes, bytes]], bytes, bytes, bytes]


def keep_seen(client: Client) -> list[Seen]:
    """What the worker is told of each request from now on."""
    seen: list[Seen] = []
    serve = client.connections.serve

    async def noted(exchange: Exchange) -> None:
        caller = exchange.caller
        body = exchange.take_body()
        exchange.add_body(body)
        seen.append((exchange.target, exchange.headers, body, caller.secret(), caller.session()))
        await serve(exchange)

    client.connections.serve = noted  # type: ignore[method-assign]
    return seen


class _NoParser:
    def feed_data(self, data: bytes) -> None:
        raise AssertionError(data)


def lines(key: bytes, session: bytes, more: bytes = b"") -> bytes:
    return b"Authorization: Bearer %b\r\nX-Session-Id: %b\r\n%b" % (key, session, more)


requests = st.builds(
    lambda body, key, session, more: post(body, lines=lines(key, session, more)),
    st.sampled_from([b"{}", b'{"a":1}', b"x" * 300]),
    st.sampled_from([b"one", b"one", b"two"]),
    st.sampled_from([b"s-1", b"s-1", b"s-2", b"another name"]),
    st.sampled_from([b"", b"", b"x-a: 1\r\n", b"Connection: keep-alive\r\n"]),
)


@given(st.lists(requests, min_size=1, max_size=6), st.lists(st.integers(1, 300), max_size=2))
def test_what_the_worker_is_told_does_not_depend_on_the_requests_before(
    sent: list[bytes], cuts: list[int]
) -> None:
    async def test(client: Client) -> None:
        seen = keep_seen(client)
        for data in sent:
            places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
            for start, end in itertools.pairwise(places):
                await client.send(data[start:end])
            fresh = Client(IngressSettings())
            first_there = keep_seen(fresh)
            await fresh.send(data)
            fresh.protocol.connection_lost(None)
            assert seen[-1:] == first_there
        assert len(seen) == len(sent)

    run(test)


@pytest.mark.parametrize("body", [b"{}", b'{"a":12345}', b"x" * 12345])
def test_the_same_head_with_another_length_is_not_parsed(body: bytes) -> None:
    async def test(client: Client) -> None:
        seen = keep_seen(client)
        await client.send(post(b"first", lines=lines(b"one", b"s-1")))
        client.protocol.parser = _NoParser()  # type: ignore[assignment]
        await client.send(post(body, lines=lines(b"one", b"s-1")))
        assert (seen[1][2], seen[1][3]) == (body, b"one")
        assert client.answers == 2

    run(test)


def test_another_session_on_the_same_connection_is_not_parsed() -> None:
    async def test(client: Client) -> None:
        seen = keep_seen(client)
        await client.send(post(b"{}", lines=lines(b"one", b"s-1")))
        client.protocol.parser = _NoParser()  # type: ignore[assignment]
        await client.send(post(b"{}", lines=lines(b"one", b"another name")))
        assert [session for *_, session in seen] == [b"s-1", b"another name"]

    run(test)


def test_body_may_come_in_parts_behind_a_known_head() -> None:
    async def test(client: Client) -> None:
        seen = keep_seen(client)
        data = post(b"[1, 2, 3]", lines=lines(b"one", b"s-1"))
        await client.send(data)
        for left in range(1, 10):
            await client.send(data[:-left])
            await client.send(data[-left:])
        assert [body for _, _, body, _, _ in seen] == [b"[1, 2, 3]"] * 10

    run(test)
