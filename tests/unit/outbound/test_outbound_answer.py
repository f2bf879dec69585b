"""An answer of an unknown server is the same however its bytes are cut, and bounded."""

import asyncio

import pytest

from penstock.outbound import CallFailed, HttpReply

SIZED = b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\ncontent-length: 5\r\n\r\nhello"
CHUNKED = (
    b"HTTP/1.1 100 Continue\r\nx: interim\r\n\r\n"
    b"HTTP/1.1 404 Not Found\r\ntransfer-encoding: chunked\r\nx: y\r\nx: z\r\n\r\n"
    b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
)
UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\n\r\nhello"


async def read(*pieces: bytes, bytes_max: int = 100) -> tuple[HttpReply, bytes]:
    reader = asyncio.StreamReader()
    reply = HttpReply(reader, bytes_max)

    async def feed() -> None:
        for piece in pieces:
            reader.feed_data(piece)
            await asyncio.sleep(0)
        reader.feed_eof()

    async with asyncio.TaskGroup() as group:
        group.create_task(feed())
        await reply.read_head()
        body = await reply.body()
    return reply, body


@pytest.mark.parametrize("answer", [SIZED, CHUNKED, UNTIL_CLOSE], ids=["sized", "chunked", "close"])
async def test_an_answer_cut_anywhere_is_the_same(answer: bytes) -> None:
    for at in range(len(answer)):
        reply, body = await read(answer[:at], answer[at:])
        assert body == b"hello"
        assert reply.status == (404 if answer is CHUNKED else 200)
    if answer is CHUNKED:
        assert reply.headers["x"] == "y"


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"nonsense\r\n\r\n", SIZED[:-1], CHUNKED[:-3], CHUNKED[:30], b"HTTP/1.1 200 OK\r\nx: ",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ],
)  # fmt: skip
async def test_what_is_no_whole_answer_is_a_failure(answer: bytes) -> None:
    with pytest.raises(ExceptionGroup) as raised:
        await read(answer)
    assert raised.group_contains(CallFailed)


@pytest.mark.parametrize("answer", [SIZED, CHUNKED, UNTIL_CLOSE])
async def test_a_body_that_is_too_long_is_a_failure(answer: bytes) -> None:
    assert (await read(answer, bytes_max=5))[1] == b"hello"
    with pytest.raises(ExceptionGroup) as raised:
        await read(answer, bytes_max=4)
    assert raised.group_contains(CallFailed, match="larger than allowed")
