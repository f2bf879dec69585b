"""A head is known by its bytes only where a parser would read the same from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.wire import cut_heads
from tests.unit.wire.cut_heads import DATES, REQUEST_LINE, STATUS_LINE, check_read, learned, message

from penstock.wire.http.known_head import KnownHead

REQUEST = message(REQUEST_LINE, b"{}", more=b"authorization: Bearer one\r\n")


@pytest.mark.parametrize("line", [REQUEST_LINE, STATUS_LINE])
@pytest.mark.parametrize("date", [b"", DATES[0]])
def test_a_head_cut_anywhere_is_read_as_a_parser_reads_it(line: bytes, date: bytes) -> None:
    first, second = (message(line, body, date=date) for body in (b"{}", b'{"longer":"body"}'))
    end = second.find(b"\r\n\r\n") + 4
    for cut in range(len(second) + 1):
        assert check_read(learned(first), second[:cut]) == (cut >= end)


@given(cut_heads.first_lines, cut_heads.bodies, cut_heads.bodies, cut_heads.dates,
       cut_heads.dates, cut_heads.more_lines, st.integers(0, 400))  # fmt: skip
def test_heads_of_one_connection_cut_anywhere(
    line: bytes, body: bytes, other: bytes, date: bytes, later: bytes, more: bytes, cut: int
) -> None:
    known = learned(message(line, body, date=date, more=more))
    data = message(line, other, date=later, more=more)
    is_known = check_read(known, data[:cut])
    is_whole_head = cut >= data.find(b"\r\n\r\n") + 4
    assert is_known == (is_whole_head and bool(date) == bool(later))


@given(cut_heads.first_lines, st.integers(0, 250), cut_heads.others, st.booleans())
def test_a_head_with_other_bytes_in_it_is_read_as_a_parser_reads_it(
    line: bytes, at: int, other: bytes, is_inserted: bool
) -> None:
    data = message(line, b'{"a":1}', date=DATES[0], more=b"x-last: 1\r\n")
    changed = data[:at] + other + data[at if is_inserted else at + len(other) :]
    check_read(learned(data), changed)


@pytest.mark.parametrize(
    "data",
    [
        REQUEST[1:],
        REQUEST.replace(b"Bearer one", b"Bearer two"),
        REQUEST.replace(b"\r\n\r\n", b"\r\nx-other: 1\r\n\r\n"),
        REQUEST.replace(b"content-length: 2", b"content-length: +2"),
        REQUEST.replace(b"content-length: 2", b"content-length: "),
        REQUEST.replace(b"content-length: 2", b"content-length: 2 "),
        REQUEST.replace(b"content-length: 2", b"content-length: " + b"9" * 13),
        REQUEST.replace(b"content-length: 2", b"content-length: 2\nx: 1"),
        REQUEST.replace(b"POST", b"PUT"),
        REQUEST.replace(b"chat/completions", b"embeddings"),
    ],
)
def test_anything_else_is_left_to_the_parser(data: bytes) -> None:
    assert learned(REQUEST).body_at(data) == -1


@pytest.mark.parametrize("value", [b"", b" d", b"d ", b"d\n", b"d\0", b"d\t", b"d\x7f", b"d" * 65])
def test_a_date_that_a_parser_reads_otherwise_is_left_to_it(value: bytes) -> None:
    data = message(STATUS_LINE, b"{}", date=DATES[0])
    assert learned(data).body_at(data.replace(DATES[0], value)) == -1


@pytest.mark.parametrize(
    "data",
    [
        message(REQUEST_LINE, b"{}", more=b"transfer-encoding: chunked\r\n"),
        message(REQUEST_LINE, b"{}", more=b"expect: 100-continue\r\n"),
        message(REQUEST_LINE, b"{}", more=b"upgrade: h2c\r\n"),
        message(REQUEST_LINE, b"{}", more=b"connection: close\r\n"),
        message(REQUEST_LINE, b"{}", more=b"content-length: 2\r\n"),
        REQUEST.replace(b"content-length: 2\r\n", b""),
        REQUEST.replace(b"host: x", b"host:x"),
        REQUEST.replace(b"host: x", b"host:  x"),
        REQUEST.replace(b"host: x\r\n", b"host: x\n"),
        REQUEST.replace(b"host: x\r\n", b"host: x\r\n y\r\n"),
        REQUEST[:40],
        b"\r\n" + REQUEST,
        message(REQUEST_LINE, b"{}", more=b"x: %b\r\n" % (b"y" * 9000)),
    ],
)
def test_an_unusual_head_is_not_learned(data: bytes) -> None:
    known = KnownHead()
    headers = cut_heads.Parsed(data).headers
    assert not known.learn(data, headers, REQUEST_LINE)
    assert known.body_at(data) == -1


def test_a_head_that_begins_otherwise_than_it_must_is_not_learned() -> None:
    headers = cut_heads.Parsed(REQUEST).headers
    old = REQUEST.replace(b"HTTP/1.1", b"HTTP/1.0")
    assert not KnownHead().learn(old, headers, REQUEST_LINE)
    assert KnownHead().learn(REQUEST, headers, REQUEST_LINE)


def test_a_known_head_outlives_others_between() -> None:
    other = message(REQUEST_LINE, b"{}", more=b"transfer-encoding: chunked\r\n")
    known = learned(REQUEST, *[other] * 10)
    assert check_read(known, REQUEST)


def test_a_peer_whose_heads_always_differ_is_given_up() -> None:
    heads = [message(REQUEST_LINE, b"{}", more=b"x-%d: 1\r\n" % number) for number in range(20)]
    assert learned(*heads).body_at(heads[-1]) == -1
