"""Streams whose head is known by its bytes: what is handed on is what a parser reads."""

import itertools
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.engine.test_known_heads import DATES, Line, _NoParser, _Unknown, answer, values

from penstock.wire.known_head import KnownHead

LAST = b"0\r\n\r\n"


class StreamLine(Line):
    """A connection on which streams follow each other."""

    is_streamed = True

    def __init__(self, known: KnownHead) -> None:
        super().__init__(KnownHead())
        self.connection._known_stream = known


def lines() -> tuple[StreamLine, StreamLine]:
    """One that knows heads, and one that has all read by the parser."""
    return StreamLine(KnownHead(is_chunked=True)), StreamLine(_Unknown(is_chunked=True))


def stream(*chunks: bytes, date: bytes = DATES[0], more: bytes = b"", last: bytes = LAST) -> bytes:
    head = (
        b"HTTP/1.1 200 OK\r\ndate: %s\r\nserver: uvicorn\r\n"
        b"content-type: text/event-stream; charset=utf-8\r\n%stransfer-encoding: chunked\r\n\r\n"
    )
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return head % (date, more) + framed + last


more_lines = st.builds(
    lambda name, value: b"%s: %s\r\n" % (name, value),
    st.sampled_from([b"x-request-id", b"connection", b"content-length", b"Transfer-Encoding",
                     b"trailer", b"upgrade", b"x y"]),
    values,
)  # fmt: skip
chunk_lists = st.lists(
    st.sampled_from([b"data: a\n\n", b"x" * 15, b"x" * 16, b"x" * 300, b"x" * 5000, b"0\r\n\r\n",
                     b"HTTP/1.1 200 OK\r\n\r\n"]),
    max_size=4,
)  # fmt: skip
lasts = st.sampled_from([
    LAST, LAST, LAST, b"", b"0\r\nx-sum: 1\r\n\r\n", b"0;a=b\r\n\r\n", b"00\r\n\r\n", b"zz\r\n",
    LAST + b"HTTP/1.1 200 OK\r\n\r\n", LAST + b"\r\n", b"5;a=b\r\nhello\r\n" + LAST,
    b"A\r\n0123456789\r\n" + LAST, b"ff", b"5\nhello\r\n",
])  # fmt: skip
streams = st.builds(
    lambda chunks, date, more, last: stream(*chunks, date=date, more=more, last=last),
    chunk_lists,
    st.one_of(st.sampled_from(DATES), values),
    st.one_of(st.just(b""), st.just(b""), more_lines),
    lasts,
)
answers = st.one_of(
    streams, streams, streams, st.sampled_from([answer(b"{}"), b"nonsense\r\n\r\n"])
)


@given(st.lists(answers, min_size=1, max_size=6), st.lists(st.integers(0, 700), max_size=4))
def test_what_is_told_is_what_the_parser_reads(sent: list[bytes], cuts: list[int]) -> None:
    known, plain = lines()
    known.ask(stream(b"data: a\n\n"))
    plain.ask(stream(b"data: a\n\n"))
    for data in sent:
        places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
        reads = [data[a:b] for a, b in itertools.pairwise(places)]
        assert known.ask(*reads) == plain.ask(*reads)
        if known.transport.is_aborted or not known.connection.is_usable:
            break


@given(st.integers(0, 250), st.binary(min_size=1, max_size=3), st.booleans())
def test_a_stream_with_other_bytes_in_it_is_read_as_the_parser_reads_it(
    at: int, other: bytes, is_inserted: bool
) -> None:
    data = stream(b"data: a\n\n", b"data: " + b"b" * 30 + b"\n\n", more=b"x-request-id: abc\r\n")
    changed = data[:at] + other + data[at if is_inserted else at + len(other) :]
    known, plain = lines()
    for told in (data, data.replace(b"abc", b"xyz"), data):
        assert known.ask(told) == plain.ask(told)
    assert known.ask(changed) == plain.ask(changed)


@pytest.mark.parametrize("behind", [b"", b"5", b"9\r\ndata:", b"9\r\ndata: b\n\n\r\n0\r\n"])
def test_a_stream_that_is_cut_is_lost_as_the_parser_loses_it(behind: bytes) -> None:
    known, plain = lines()
    told = []
    for line in (known, plain):
        line.ask(stream(b"data: a\n\n"))
        receiver = line.begin()
        line.connection.data_received(stream(b"data: a\n\n", last=behind))
        line.connection.connection_lost(None)
        told.append(receiver.told)
    assert told[0] == told[1]


def test_a_stream_like_the_last_one_is_not_parsed() -> None:
    line, _ = lines()
    line.ask(stream(b"data: a\n\n"))
    line.connection._parser = _NoParser()  # type: ignore[assignment]
    head, rest = (
        stream(last=b""),
        stream(b"data: a\n\n" * 9, b"data: b\n\n")[len(stream(last=b"")) :],
    )
    for count, reads in enumerate([[head + rest], [head, rest], [head, rest[:-5], LAST]], start=2):
        assert line.ask(*reads)[-3:] == ["complete", False, count]


def test_what_is_unusual_behind_a_known_head_is_parsed() -> None:
    line, _ = lines()
    line.ask(stream(b"data: a\n\n"))
    told = line.ask(stream(b"data: b\n\n", last=b"3;x=y\r\nabc\r\n0\r\nx-sum: 1\r\n\r\n"))
    assert told[1:] == [b"data: b\n\n", b"abc", "read", "complete", False, 2]
    line.connection._parser = _NoParser()  # type: ignore[assignment]
    told = line.ask(stream(b"data: c\n\n"))
    headers = cast("tuple[int, list[tuple[bytes, bytes]]]", told[0])[1]
    assert [name for name, _ in headers] == [b"date", b"server", b"content-type",
                                             b"transfer-encoding"]  # fmt: skip


def test_trailers_of_a_first_stream_are_no_headers_of_the_next() -> None:
    line, _ = lines()
    line.ask(stream(b"data: a\n\n", last=b""), b"0\r\nx-sum: 1\r\n\r\n")
    line.connection._parser = _NoParser()  # type: ignore[assignment]
    headers = cast("tuple[int, list[tuple[bytes, bytes]]]", line.ask(stream(b"data: c\n\n"))[0])[1]
    assert (b"x-sum", b"1") not in headers


def test_streams_and_whole_answers_are_known_beside_each_other() -> None:
    line, _ = lines()
    for _ in range(6):
        line.is_streamed = True
        line.ask(stream(b"data: a\n\n"))
        line.is_streamed = False
        line.ask(answer(b"{}"))
    line.connection._parser = _NoParser()  # type: ignore[assignment]
    assert line.ask(answer(b"{}"))[-3] == "complete"
    line.is_streamed = True
    assert line.ask(stream(b"data: a\n\n"))[-3] == "complete"
