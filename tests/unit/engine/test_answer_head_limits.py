"""What an engine may send around an answer's body is bounded: heads, trailers, chunk lines."""

import itertools
from collections.abc import Iterator

import pytest
from tests.unit.engine.chunked_answers import Asked, chunk

from penstock.engine.settings import EngineSettings
from penstock.errors import EngineFailed

MAX = EngineSettings().head_bytes_max
READ = 4096
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"transfer-encoding: chunked\r\n\r\n"
EVENT = chunk(b"data: a\n\n")


def endless(first: bytes, part: bytes) -> Iterator[bytes]:
    yield first
    yield from itertools.repeat(part)


@pytest.mark.parametrize(
    "reads",
    [
        pytest.param((OK, b"x-a: 1\r\n" * 100), id="headers"),
        pytest.param((OK + b"x: ", b"y" * READ), id="one header's value"),
        pytest.param((OK, b"y" * READ), id="one header's name"),
        pytest.param((b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50), id="interim answers"),
        pytest.param((CHUNKED + EVENT + b"0\r\n", b"x-a: 1\r\n" * 100), id="trailers"),
        pytest.param((CHUNKED + EVENT + b"0\r\nx: ", b"y" * READ), id="one trailer's value"),
        pytest.param((CHUNKED + EVENT + b"5;x=", b"y" * READ), id="a chunk's extension"),
    ],
)
def test_an_engine_that_never_ends_a_head_is_dropped_at_the_limit(
    reads: tuple[bytes, bytes],
) -> None:
    asked = Asked()
    sent = 0
    for read in endless(*reads):
        if asked.transport.is_aborted:
            break
        assert sent <= MAX + READ
        if read:
            asked.connection.data_received(read)
        sent += len(read)
    assert isinstance(asked.receiver.error, EngineFailed)
    assert "engine.head_bytes_max" in asked.receiver.error.message
    assert asked.pool.idled == 0
    assert not asked.receiver.is_complete


def test_a_large_head_is_refused_also_when_one_read_brings_it_with_its_body() -> None:
    asked = Asked()
    value = b"y" * (MAX + 1)
    asked.connection.data_received(b"%bx: %b\r\ncontent-length: 2\r\n\r\n{}" % (OK, value))
    assert isinstance(asked.receiver.error, EngineFailed)
    assert asked.receiver.status == 0
    assert asked.transport.is_aborted


@pytest.mark.parametrize("read_bytes", [997, 1 << 20])
def test_a_head_below_the_limit_is_taken_however_long_its_body_is(read_bytes: int) -> None:
    asked = Asked()
    value, body = b"y" * (MAX - 200), b"b" * (3 * MAX)
    data = b"%bx: %b\r\ncontent-length: %d\r\n\r\n%b" % (OK, value, len(body), body)
    for at in range(0, len(data), read_bytes):
        asked.connection.data_received(data[at : at + read_bytes])
    assert asked.receiver.body == body
    assert asked.receiver.is_complete
    assert asked.pool.idled == 1


def test_chunk_lines_of_a_long_stream_do_not_add_up() -> None:
    asked = Asked()
    asked.connection.data_received(CHUNKED)
    for _ in range(2 * MAX // 20):
        asked.connection.data_received(chunk(b"data: a\n\n", extension=b";some=extension"))
    asked.connection.data_received(b"0\r\n\r\n")
    assert asked.receiver.is_complete
    assert asked.receiver.error is None
