"""Chunked answers, in whatever pieces they come: what is handed on is what was sent."""

from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.chunked_answers import Asked, _Receiver, chunk
from tests.unit.engine.engine_line import HEAD_BYTES_MAX

from penstock.engine.connection import Connection
from penstock.errors import EngineFailed

if TYPE_CHECKING:
    import asyncio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: Chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


payloads = st.lists(
    st.one_of(
        st.binary(min_size=1, max_size=40),
        # What looks like the framing itself.
        st.sampled_from([b"5\r\nhello\r\n", b"\r\n", b"0\r\n\r\n", b"data: x\n\n", b"a" * 300]),
    ),
    max_size=12,
)


@given(payloads, st.lists(st.integers(0, 4000), max_size=25), st.booleans())
def test_body_is_what_was_sent_however_it_is_cut(
    sent: list[bytes], cuts: list[int], has_extensions: bool
) -> None:
    asked = Asked()
    extension = b";a=b" if has_extensions else b""
    data = HEAD + b"".join(chunk(payload, extension=extension) for payload in sent) + LAST
    for _ in range(2):
        asked.hear(data, cuts)
        assert asked.receiver.status == 200
        assert asked.receiver.body == b"".join(sent)
        assert asked.receiver.is_complete
        assert not asked.transport.is_aborted
        asked.ask()
    assert asked.pool.idled == 2


@given(payloads, st.lists(st.integers(0, 4000), max_size=25))
def test_trailers_are_read_and_left_out(sent: list[bytes], cuts: list[int]) -> None:
    asked = Asked()
    data = HEAD + b"".join(map(chunk, sent)) + b"0\r\nx-checksum: 1\r\n\r\n"
    asked.hear(data, cuts)
    assert asked.receiver.body == b"".join(sent)
    assert asked.receiver.is_complete
    assert asked.pool.idled == 1


@pytest.mark.parametrize(
    "bad",
    [
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"5_\r\nhello\r\n",
        b"5\nhello\r\n",
        b"5\r\nhello!\r\n",
    ],
)
@pytest.mark.parametrize("before", [b"", chunk(b"data: a\n\n")])
def test_wrong_framing_ends_the_answer(bad: bytes, before: bytes) -> None:
    asked = Asked()
    asked.connection.data_received(HEAD)
    if before:
        asked.connection.data_received(before)
    asked.connection.data_received(bad)
    assert asked.receiver.error is not None
    assert asked.transport.is_aborted
    assert not asked.receiver.is_complete


def test_each_read_ends_once() -> None:
    asked = Asked()
    reads = [
        HEAD,
        chunk(b"data: a\n\n"),
        chunk(b"data: b\n\n") + b"9",
        b"\r\ndata: c\n\n\r\n",
        LAST,
    ]
    for count, read in enumerate(reads, start=1):
        asked.connection.data_received(read)
        assert asked.receiver.reads == count
    assert asked.receiver.body == b"data: a\n\ndata: b\n\ndata: c\n\n"


class _Crashing(_Receiver):
    def on_body(self, data: bytes) -> None:
        raise ValueError(data)


def test_a_receiver_that_crashes_is_told_the_end(caplog: pytest.LogCaptureFixture) -> None:
    asked = Asked()
    asked.receiver = _Crashing()
    asked.connection = Connection(asked.pool, HEAD_BYTES_MAX)
    asked.connection.connection_made(cast("asyncio.BaseTransport", asked.transport))
    asked.connection.send([b"GET / HTTP/1.1\r\n\r\n"], asked.receiver)
    asked.connection.data_received(HEAD)
    asked.connection.data_received(chunk(b"data: some token\n\n"))
    assert isinstance(asked.receiver.error, EngineFailed)
    assert asked.transport.is_aborted
    assert "receiver crashed" in caplog.text
