"""Reading an engine's answers, without an engine."""

import asyncio

import pytest

from penstock.fleet.health import ProbeAnswer, _read_answer


async def _read(data: bytes, bytes_max: int = 1000) -> ProbeAnswer:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await _read_answer(reader, bytes_max)


async def test_a_body_with_a_length_is_read() -> None:
    answer = await _read(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokrest")
    assert answer == ProbeAnswer(200, b"ok")


async def test_a_chunked_body_is_read() -> None:
    head = b"HTTP/1.1 503 Busy\r\nTransfer-Encoding: chunked\r\n\r\n"
    answer = await _read(head + b"2\r\nab\r\n3;x=y\r\ncde\r\n0\r\n\r\n")
    assert answer == ProbeAnswer(503, b"abcde")


async def test_a_body_without_a_length_is_read_to_its_end() -> None:
    assert await _read(b"HTTP/1.0 200 OK\r\n\r\nall of it") == ProbeAnswer(200, b"all of it")


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + b"x" * 1001,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 1001,
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"h%d: x\r\n" % n for n in range(101)) + b"\r\n",
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
    ],
)
async def test_what_is_too_large_or_not_http_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"too|not an HTTP|invalid literal"):
        await _read(data)


async def test_an_answer_that_stops_early_is_refused() -> None:
    with pytest.raises(EOFError):
        await _read(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab")
