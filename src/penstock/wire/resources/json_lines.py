"""Splits a file of one JSON text per line, from pieces that end anywhere, in bounded memory."""

from collections.abc import AsyncIterator


async def lines_of(
    pieces: AsyncIterator[bytes], bytes_max: int
) -> AsyncIterator[tuple[int, bytes | None]]:
    """Yield each line that is not blank, with its number from 0; None if over `bytes_max`."""
    number, begun, is_long = 0, bytearray(), False
    async for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for line in ended:
            begun += line
            if is_long or len(begun) > bytes_max:
                yield number, None
            elif text := bytes(begun).strip():
                yield number, text
            number += 1
            is_long = False
            begun.clear()
        begun += rest
        if len(begun) > bytes_max:
            # Only the fact that the line is too long is kept.
            is_long = True
            begun.clear()
    if is_long or len(begun) > bytes_max:
        yield number, None
    elif text := bytes(begun).strip():
        yield number, text
