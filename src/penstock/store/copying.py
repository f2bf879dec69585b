"""Runs COPY in pieces, each sent to the server before the next is made.

Otherwise libpq buffers what the socket does not accept at once; that buffer may grow to the whole
batch and never shrinks, in every connection of the pool.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from psycopg.abc import Buffer
from psycopg.copy import AsyncLibpqWriter
from psycopg.generators import copy_to

PIECE_BYTES: Final = 2**16


class PieceWriter(AsyncLibpqWriter):
    """psycopg's own writer, except that each write returns only when libpq's buffer is empty."""

    async def write(self, data: Buffer) -> None:
        await self.connection.wait(copy_to(self._pgconn, data, flush=True))


def in_pieces(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Join lines into pieces of at least PIECE_BYTES each, except the last."""
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
