"""COPY in pieces, each gone to the server before the next is made.

libpq keeps what the socket does not take at once in a buffer that may grow to the whole batch and
is never made smaller, in every connection of the pool.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from psycopg.abc import Buffer
from psycopg.copy import AsyncLibpqWriter
from psycopg.generators import copy_to

PIECE_BYTES: Final = 2**16


class PieceWriter(AsyncLibpqWriter):
    """psycopg's own writer, but each write ends when libpq holds nothing back."""

    async def write(self, data: Buffer) -> None:
        await self.connection.wait(copy_to(self._pgconn, data, flush=True))


def in_pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines joined to pieces of at least so many bytes, but for the last."""
    piece: list[bytes] = []
    size = 0
    for line in lines:
        piece.append(line)
        size += len(line)
        if size >= PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
    if piece:
        yield b"".join(piece)
