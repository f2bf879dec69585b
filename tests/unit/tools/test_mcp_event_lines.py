"""A server's events are the same however its bytes are cut, and bounded."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.tools.mcp import McpFailure
from penstock.tools.mcp.event_lines import EventLines

STREAM = (
    b"\xef\xbb\xbf: hello\r\nid: 1\r\ndata:\r\n\r\n"
    b'event: message\r\ndata: {"a":\r\ndata: 1}\r\n\r\n'
    b"event: other\ndata: dropped\n\n"
    b'data:{"b": 2}\n\nretry: 5\rdata: {"c": "\xc3\xa9"}\r\rdata: unfinished'
)
EXPECTED = [b'{"a":\n1}', b'{"b": 2}', b'{"c": "\xc3\xa9"}']


def read(*pieces: bytes) -> list[bytes]:
    lines = EventLines(4096)
    return [data for piece in pieces for data in lines.feed(piece)]


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_a_stream_cut_anywhere_gives_the_same_messages(at: int) -> None:
    assert read(STREAM[:at], STREAM[at:]) == EXPECTED


def test_a_stream_that_comes_byte_by_byte_gives_the_same_messages() -> None:
    assert read(*(bytes([each]) for each in STREAM)) == EXPECTED


@given(st.lists(st.integers(0, len(STREAM))))
def test_a_stream_in_any_pieces_gives_the_same_messages(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    assert read(*(STREAM[a:b] for a, b in itertools.pairwise(places))) == EXPECTED


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 100, b"x" * 200, b"data: xxxxxxxx\n" * 20])
def test_an_event_that_is_too_long_is_refused(piece: bytes) -> None:
    lines = EventLines(64)
    with pytest.raises(McpFailure, match="too long"):
        [lines.feed(bytes([each])) for each in piece]
    with pytest.raises(McpFailure, match="too long"):
        EventLines(64).feed(piece)


def test_many_short_events_are_no_long_one() -> None:
    assert EventLines(64).feed(b"data: x\n\n" * 1000) == [b"x"] * 1000
