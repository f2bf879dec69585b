"""Answers of a sandbox host that are cut, too long or nonsense end a request, and soon."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from penstock.outbound.target import Target
from penstock.tools.host_exchange import FAILURES, HostRequest, NoConnection, exchange

OK = b"HTTP/1.1 200 OK\r\n"
REQUEST = HostRequest(method="GET", path="/status", seconds=2.0)


@asynccontextmanager
async def answering(answer: bytes, *, hangs: bool = False) -> AsyncIterator[Target]:
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        with suppress(OSError):
            if hangs:
                await reader.read()
            writer.close()
            await writer.wait_closed()
        served.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Target("127.0.0.1", port, is_tls=False, authority=f"127.0.0.1:{port}", path="/")
    finally:
        await served.wait()
        server.close()


async def body_of(answer: bytes, request: HostRequest = REQUEST, *, hangs: bool = False) -> bytes:
    async with (
        answering(answer, hangs=hangs) as target,
        exchange(target, "token", None, request) as found,
    ):
        return await found.whole(1000)


async def test_bodies_of_both_framings_are_read() -> None:
    assert await body_of(OK + b"Content-Length: 5\r\n\r\nhello") == b"hello"
    chunks = b"Transfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    assert await body_of(OK + chunks) == b"abcde"


async def test_lines_are_put_together_across_chunks() -> None:
    body = b"Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n5\r\n\ntwo\n\r\n1\r\n3\r\n0\r\n\r\n"
    async with (
        answering(OK + body) as target,
        exchange(target, "", None, REQUEST) as found,
    ):
        assert [line async for line in found.lines(10, 100)] == [b"one", b"two", b"3"]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0\r\n\r\n",
        OK,
        OK + b"X: y\r\n" * 100,
        OK + b"X: " + b"y" * 100_000,
        OK + b"\r\nno length",
        OK + b"Content-Length: -5\r\n\r\n",
        OK + b"Content-Length: 5\r\n\r\nhel",
        OK + b"Content-Length: 1001\r\n\r\n" + b"x" * 1001,
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n-5\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n" + b"x" * 1001,
    ],
)
async def test_a_bad_answer_is_a_failure(answer: bytes) -> None:
    with pytest.raises(FAILURES):
        await body_of(answer)


async def test_a_line_that_is_too_long_is_a_failure() -> None:
    async with (
        answering(OK + b"Content-Length: 20\r\n\r\n" + b"x" * 20) as target,
        exchange(target, "", None, REQUEST) as found,
    ):
        with pytest.raises(ValueError, match="longer than 10 bytes"):
            assert not [line async for line in found.lines(10, 100)]


@pytest.mark.parametrize("answer", [b"", OK + b"Content-Length: 5\r\n\r\nhel"])
async def test_a_host_that_hangs_is_left_at_the_deadline(answer: bytes) -> None:
    request = HostRequest(method="GET", path="/", seconds=0.2)
    began = asyncio.get_running_loop().time()
    with pytest.raises(TimeoutError):
        await body_of(answer, request, hangs=True)
    assert asyncio.get_running_loop().time() - began < 1


async def test_a_long_body_waits_for_a_host_that_does_not_read_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("penstock.tools.host_exchange._SILENT_MILLISECONDS", 200)
    body = b"x" * 32 * 2**20

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # As a host does whose places for files are taken: the client's kernel sees no room.
        await asyncio.sleep(1.5)
        await reader.readuntil(b"\r\n\r\n")
        assert len(await reader.readexactly(len(body))) == len(body)
        writer.write(OK + b"Content-Length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    target = Target("127.0.0.1", port, is_tls=False, authority=f"127.0.0.1:{port}", path="/")
    request = HostRequest(method="PUT", path="/", body=body, seconds=20.0)
    async with server, exchange(target, "", None, request) as found:
        assert await found.whole(10) == b"{}"


async def test_a_host_that_is_not_there_got_nothing() -> None:
    target = Target("127.0.0.1", 1, is_tls=False, authority="127.0.0.1:1", path="/")
    with pytest.raises(NoConnection):
        async with exchange(target, "", None, REQUEST):
            pass
