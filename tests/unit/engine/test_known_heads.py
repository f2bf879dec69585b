"""Answers whose head is known by its bytes: what is handed on is what a parser reads."""

import itertools
from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.connection_doubles import CountingPool, DroppableTransport
from tests.unit.engine.engine_line import HEAD_BYTES_MAX

from penstock.engine.answer_framing import Receiver
from penstock.engine.connection import Connection
from penstock.errors import Error
from penstock.wire.http.known_head import KnownHead

if TYPE_CHECKING:
    import asyncio

    from msgspec import Raw

LAST = b"0\r\n\r\n"
DATES = (b"Tue, 14 Nov 2023 22:13:20 GMT", b"Tue, 14 Nov 2023 22:13:21 GMT")


class _Receiver(Receiver):
    """Keeps what it is told, in order."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.told.append((status, headers.copy()))

    def on_body(self, data: bytes) -> None:
        self.told.append(data)

    def on_read_end(self) -> None:
        self.told.append("read")

    def on_complete(self) -> None:
        self.told.append("complete")

    def on_lost(self, error: Error, *, answered: bool) -> None:
        self.told.append((type(error), error.message, answered))


class _Unknown(KnownHead):
    """Knows nothing: the parser reads all."""

    def body_at(self, data: bytes) -> int:
        return -1


class Line:
    """A connection on which one request follows the other."""

    def __init__(self, known: KnownHead) -> None:
        self.pool = CountingPool()
        self.transport = DroppableTransport()
        self.connection = Connection(self.pool, HEAD_BYTES_MAX)
        self.connection._framing._known = known
        self.connection.connection_made(cast("asyncio.BaseTransport", self.transport))

    def begin(self) -> _Receiver:
        receiver = _Receiver()
        request: list[bytes | Raw] = [b"POST / HTTP/1.1\r\n\r\n"]
        self.connection.send(request, receiver)
        return receiver

    def ask(self, *reads: bytes) -> list[object]:
        """What is told of an answer that comes in these reads, and of the connection then."""
        receiver = self.begin()
        for read in reads:
            self.connection.data_received(read)
        told = [*receiver.told, self.transport.is_aborted, self.pool.idled]
        if receiver.told[-1:] != ["complete"]:
            # What is open has no place on a connection for the next.
            self.connection.abort()
        return told


def answer(body: bytes, *, date: bytes = DATES[0], more: bytes = b"", length: int = -1) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\ndate: %s\r\nserver: uvicorn\r\nContent-Length: %d\r\n"
        b"content-type: application/json\r\n%s\r\n%s"
        % (date, len(body) if length < 0 else length, more, body)
    )


def stream(*chunks: bytes, date: bytes = DATES[0], more: bytes = b"", last: bytes = LAST) -> bytes:
    head = (
        b"HTTP/1.1 200 OK\r\ndate: %s\r\nserver: uvicorn\r\n"
        b"content-type: text/event-stream; charset=utf-8\r\n%stransfer-encoding: chunked\r\n\r\n"
    )
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return head % (date, more) + framed + last


values = st.one_of(
    st.sampled_from([*DATES, b"keep-alive", b"close", b"chunked", b"", b" a", b"a ", b"\xe9"]),
    st.binary(max_size=12),
)
lines = st.builds(
    lambda name, value: b"%s: %s\r\n" % (name, value),
    st.sampled_from([b"x-request-id", b"endpoint-load-metrics", b"connection", b"content-length",
                     b"transfer-encoding", b"upgrade", b"x y"]),
    values,
)  # fmt: skip
streams = st.builds(
    lambda chunks, date, more, last: stream(*chunks, date=date, more=more, last=last),
    st.lists(
        st.sampled_from([b"data: a\n\n", b"x" * 15, b"x" * 16, b"x" * 300, b"x" * 5000, LAST,
                         b"HTTP/1.1 200 OK\r\n\r\n"]),
        max_size=4,
    ),
    st.one_of(st.sampled_from(DATES), values),
    st.one_of(st.just(b""), st.just(b""), lines),
    st.sampled_from([
        LAST, LAST, LAST, b"", b"0\r\nx-sum: 1\r\n\r\n", b"0;a=b\r\n\r\n", b"00\r\n\r\n", b"zz\r\n",
        LAST + b"HTTP/1.1 200 OK\r\n\r\n", LAST + b"\r\n", b"5;a=b\r\nhello\r\n" + LAST,
        b"A\r\n0123456789\r\n" + LAST, b"ff", b"5\nhello\r\n",
    ]),
)  # fmt: skip
whole_answers = st.builds(
    lambda body, date, more, length: answer(body, date=date, more=more, length=length),
    st.sampled_from([b"{}", b"", b'{"a":1}', b"x" * 200, b"HTTP/1.1 200 OK\r\n\r\n"]),
    st.one_of(st.sampled_from(DATES), values),
    st.one_of(st.just(b""), lines, st.lists(lines, max_size=2).map(b"".join)),
    st.sampled_from([-1, -1, -1, -1, 0, 1, 3, 10**14]),
)


answers = st.one_of(whole_answers, whole_answers, streams)


@given(st.lists(answers, min_size=1, max_size=6), st.lists(st.integers(0, 400), max_size=2))
def test_what_is_told_is_what_the_parser_reads(sent: list[bytes], cuts: list[int]) -> None:
    known, plain = Line(KnownHead()), Line(_Unknown())
    for number, data in enumerate(sent):
        # The first ones come whole, so that there is something to know.
        places = sorted({0, len(data), *(cut for cut in cuts if number > 2 and cut < len(data))})
        reads = [data[a:b] for a, b in itertools.pairwise(places)]
        told = known.ask(*reads)
        assert told == plain.ask(*reads)
        if known.transport.is_aborted or not known.connection.is_usable:
            break


@given(st.integers(0, 250), st.binary(min_size=1, max_size=3), st.booleans())
def test_a_head_with_other_bytes_in_it_is_read_as_the_parser_reads_it(
    at: int, other: bytes, is_inserted: bool
) -> None:
    data = answer(b'{"id":1}', more=b"x-request-id: abc\r\n")
    changed = data[:at] + other + data[at if is_inserted else at + len(other) :]
    known, plain = Line(KnownHead()), Line(_Unknown())
    for told in (data, data.replace(b"abc", b"xyz"), data):
        assert known.ask(told) == plain.ask(told)
    assert known.ask(changed) == plain.ask(changed)


class _NoParser:
    """Fails whoever asks it."""

    def feed_data(self, data: bytes) -> None:
        raise AssertionError(data)


@pytest.mark.parametrize(
    "next_one",
    [
        answer(b'{"a":1}'),
        answer(b'{"a":1}', date=DATES[1]),
        answer(b'{"a":12345}'),
        answer(b"x" * 12345, date=DATES[1]),
        answer(b""),
    ],
)
def test_a_head_like_the_last_one_is_not_parsed(next_one: bytes) -> None:
    line = Line(KnownHead())
    line.ask(answer(b'{"a":1}'))
    line.connection._framing._parser = _NoParser()  # type: ignore[assignment]
    told = line.ask(next_one)
    assert told[-3:] == ["complete", False, 2]


def test_streams_between_whole_answers_do_not_make_them_forgotten() -> None:
    line = Line(KnownHead())
    line.ask(answer(b"{}"))
    for _ in range(10):
        line.ask(stream(b"data: a\n\n"))
    line.connection._framing._parser = _NoParser()  # type: ignore[assignment]
    assert line.ask(answer(b'{"a":1}'))[-3] == "complete"


def test_an_engine_whose_heads_differ_each_time_is_not_learned_for_ever() -> None:
    line = Line(KnownHead())
    for number in range(20):
        line.ask(answer(b"{}", more=b"x-%d: 1\r\n" % number))
    assert line.connection._framing._known.body_at(answer(b"{}", more=b"x-19: 1\r\n")) < 0
