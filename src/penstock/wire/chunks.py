"""HTTP's chunked framing, as far as streams of tokens need it: one small chunk, mostly alone."""

import re
from typing import Final

_LINE_END: Final = b"\r\n"
# A token's event has a few hundred bytes. To format its length would cost as much as all the rest.
_LINES: Final = tuple([b"%x\r\n" % size for size in range(4096)])
# Those of two and of three digits.
_SIZES: Final = {line: size for size, line in enumerate(_LINES) if size >= 16}
_LINE: Final = re.compile(rb"([0-9a-fA-F]{1,8})\r\n")


def chunk(data: bytes) -> bytes:
    """The data as one chunk. Not for empty data: that would be the end of the body."""
    size = len(data)
    line = _LINES[size] if size < len(_LINES) else b"%x\r\n" % size
    return b"%s%s\r\n" % (line, data)


def only_chunk(data: bytes) -> bytes | None:
    """What is in the chunk that data is: one whole, with two or three digits, and nothing else.

    None for all else, such as a line with extensions, or in capitals: that must be parsed.
    """
    # With the line's end and the data's, two digits make 6 bytes around it and three make 7.
    size = len(data) - 6 if len(data) < 262 else len(data) - 7
    if not 16 <= size < len(_LINES):
        return None
    line = _LINES[size]
    if len(line) + size + 2 == len(data) and data.startswith(line) and data.endswith(_LINE_END):
        return data[len(line) : -2]
    return None


def chunk_line(data: bytes, at: int) -> tuple[int, int]:
    """Where the chunk begins whose line is at this place, and its size.

    The size is 0 for what is left to the parser: the last chunk, a line with extensions or one that
    is not all there.
    """
    size = _SIZES.get(data[at : at + 5])
    if size is not None:
        return at + 5, size
    size = _SIZES.get(data[at : at + 4])
    if size is not None:
        return at + 4, size
    line = _LINE.match(data, at)
    return (line.end(), int(line[1], 16)) if line is not None else (at, 0)
