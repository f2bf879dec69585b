"""A file of one JSON text per line, read out of pieces that end anywhere, in bounded memory."""

from collections.abc import AsyncIterator


async def lines_of(
    pieces: AsyncIterator[bytes], bytes_max: int
) -> AsyncIterator[tuple[int, bytes | None]]:
    """Each line that is not blank, with its number from 0; None for one longer than `bytes_max`."""
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
            # Only that it was too long is kept of it.
            is_long = True
            begun.clear()
    if is_long or len(begun) > bytes_max:
        yield number, None
    elif text := bytes(begun).strip():
        yield number, text
