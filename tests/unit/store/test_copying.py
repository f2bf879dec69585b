"""COPY goes out in pieces: all lines, in order, none cut, and no piece much longer than one."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.store.copying import PIECE_BYTES, in_pieces


@given(st.lists(st.integers(min_value=0, max_value=2 * PIECE_BYTES), max_size=20))
def test_pieces_are_all_lines_in_order(lengths: list[int]) -> None:
    lines = [b"%d" % (number % 10) * length for number, length in enumerate(lengths)]
    pieces = list(in_pieces(lines))
    assert b"".join(pieces) == b"".join(lines)
    assert all(len(piece) < PIECE_BYTES + max(lengths) for piece in pieces)
    assert all(len(piece) >= PIECE_BYTES for piece in pieces[:-1])
