"""Chunked answers, in whatever pieces they come: what is handed on is what was sent."""

import itertools
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.engine_line import HEAD_BYTES_MAX

from penstock.engine.answer_framing import Receiver
from penstock.engine.connection import Connection, IdleCallback
from penstock.errors import EngineFailed, Error

if TYPE_CHECKING:
    import asyncio

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: Chunked\r\n\r\n"
LAST = b"0\r\n\r\n"


class _Transport:
    """Takes what is written, and can be dropped."""

    def __init__(self) -> None:
        self.is_aborted = False

    def write(self, data: bytes) -> None: ...

    def abort(self) -> None:
        self.is_aborted = True

    def is_closing(self) -> bool:
        return self.is_aborted


class _Receiver(Receiver):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.reads = 0
        self.is_complete = False
        self.error: Error | None = None

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status

    def on_body(self, data: bytes) -> None:
        assert not self.is_complete
        self.body += data

    def on_read_end(self) -> None:
        self.reads += 1

    def on_complete(self) -> None:
        self.is_complete = True

    def on_lost(self, error: Error, *, answered: bool) -> None:
        assert answered
        self.error = error


class _Pool(IdleCallback):
    """Counts the connections that come back."""

    def __init__(self) -> None:
        self.idled = 0

    def idle(self, connection: Connection) -> None:
        self.idled += 1

    def closed(self, connection: Connection) -> None: ...


class Asked:
    """A connection on which one request was sent."""

    def __init__(self) -> None:
        self.pool = _Pool()
        self.transport = _Transport()
        self.connection = Connection(self.pool, HEAD_BYTES_MAX)
        self.connection.connection_made(cast("asyncio.BaseTransport", self.transport))
        self.ask()

    def ask(self) -> None:
        self.receiver = _Receiver()
        self.connection.send([b"GET / HTTP/1.1\r\n\r\n"], self.receiver)

    def hear(self, data: bytes, cuts: list[int]) -> None:
        places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        for start, end in itertools.pairwise(places):
            self.connection.data_received(data[start:end])


def chunk(payload: bytes, *, extension: bytes = b"") -> bytes:
    return b"%x%s\r\n%s\r\n" % (len(payload), extension, payload)


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
