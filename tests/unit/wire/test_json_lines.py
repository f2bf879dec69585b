"""Lines out of pieces that end anywhere."""

from collections.abc import AsyncIterator
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.resources.json_lines import lines_of


async def _pieces(data: bytes, ends: list[int]) -> AsyncIterator[bytes]:
    cuts = sorted({0, len(data), *(end % (len(data) + 1) for end in ends)})
    for start, end in pairwise(cuts):
        yield data[start:end]


async def _read(data: bytes, ends: list[int], bytes_max: int) -> list[tuple[int, bytes | None]]:
    return [line async for line in lines_of(_pieces(data, ends), bytes_max)]


@given(st.lists(st.sampled_from([b"", b" ", b"a", b"bb", b"ccc\r"])), st.lists(st.integers(0, 99)))
async def test_lines_do_not_depend_on_where_pieces_end(lines: list[bytes], ends: list[int]) -> None:
    data = b"\n".join(lines)
    expected = [(number, line.strip()) for number, line in enumerate(lines) if line.strip()]
    assert await _read(data, ends, 100) == expected


@given(st.integers(0, 20), st.lists(st.integers(0, 99)))
async def test_a_line_that_is_too_long_costs_itself_alone(length: int, ends: list[int]) -> None:
    data = b"ab\n" + b"x" * length + b"\ncd"
    middle = [(1, b"x" * length if length <= 10 else None)] if length else []
    assert await _read(data, ends, 10) == [(0, b"ab"), *middle, (2, b"cd")]


async def test_a_last_line_that_is_too_long_is_told_too() -> None:
    assert await _read(b"ab\n" + b"x" * 11, [5], 10) == [(0, b"ab"), (1, None)]
