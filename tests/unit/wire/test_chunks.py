"""Chunks as they are written, and as one that comes alone is read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.http.chunks import chunk, chunk_line, only_chunk


@pytest.mark.parametrize("size", [1, 15, 16, 17, 254, 255, 256, 257, 4094, 4095, 4096, 70_000])
def test_a_chunk_says_its_size(size: int) -> None:
    data = b"x" * size
    assert chunk(data) == b"%x\r\n%s\r\n" % (size, data)
    assert only_chunk(chunk(data)) == (data if 16 <= size < 4096 else None)


@given(st.binary(min_size=1, max_size=600), st.binary(max_size=300), st.integers(0, 700))
def test_only_one_whole_chunk_is_taken(data: bytes, behind: bytes, cut: int) -> None:
    whole = chunk(data)
    assert only_chunk(whole) in (data, None)
    for other in (whole[:cut], whole + behind, whole + chunk(behind or b"y"), behind):
        found = only_chunk(other)
        # Whatever is taken is a chunk, byte for byte.
        assert found is None or chunk(found) == other


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\r\n",
        b"0\r\n\r\n",
        b"1A\r\n" + b"x" * 26 + b"\r\n",
        b"1a;a=b\r\n" + b"x" * 26 + b"\r\n",
        b"+1a\r\n" + b"x" * 26 + b"\r\n",
        b"01a\r\n" + b"x" * 26 + b"\r\n",
        b"1a\r\n" + b"x" * 26 + b"\n\r",
        b"ff\r\n" + b"x" * 256 + b"\r\n",
    ],
)
def test_what_is_written_otherwise_is_for_the_parser(data: bytes) -> None:
    assert only_chunk(data) is None


@pytest.mark.parametrize("size", [1, 15, 16, 255, 256, 4095, 4096, 2**31])
@pytest.mark.parametrize("at", [0, 7])
def test_the_line_of_any_chunk_is_read(size: int, at: int) -> None:
    for line in (b"%x\r\n" % size, b"%X\r\n" % size):
        data = b"x" * at + line + b"y"
        assert chunk_line(data, at) == (len(data) - 1, size)
    assert chunk_line(b"0%x\r\n" % (size % 2**24), 0)[1] == size % 2**24


@pytest.mark.parametrize("line", [b"", b"0\r\n", b"1a", b"1a\r", b"1a;x\r\n", b"+1a\r\n", b"1a\n"])
def test_what_is_no_line_of_a_chunk_has_no_size(line: bytes) -> None:
    assert chunk_line(b"1a\r\n" + line, 4)[1] == 0
