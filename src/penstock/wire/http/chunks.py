"""HTTP's chunked framing for streams of tokens: mostly one small chunk at a time."""

from typing import Final

LAST_CHUNK: Final = b"0\r\n\r\n"
_LINE_END: Final = b"\r\n"
# Made once: a token's event has a few hundred bytes, and formatting its length doubles the cost.
_LINES: Final = tuple([b"%x\r\n" % size for size in range(4096)])
_DIGITS_MAX: Final = 8
_RETURN: Final = ord("\r")
_NEW_LINE: Final = ord("\n")
# The value of each byte as a hexadecimal digit; 16 for a byte that is none.
_NO_DIGIT: Final = 16
_WORTH: Final = bytes(
    int(chr(byte), 16) if chr(byte) in "0123456789abcdefABCDEF" else _NO_DIGIT
    for byte in range(256)
)


def chunk(data: bytes) -> bytes:
    """Return the data as one chunk. Not for empty data: that would end the body."""
    size = len(data)
    line = _LINES[size] if size < len(_LINES) else b"%x\r\n" % size
    return b"%s%s\r\n" % (line, data)


def only_chunk(data: bytes) -> bytes | None:
    """Return the content if data is exactly one whole chunk, whose size has two or three digits.

    None for anything else, such as a line with extensions or capitals, which must be parsed.
    """
    # The digits and two line ends: 6 bytes around the content with two digits, 7 with three.
    size = len(data) - 6 if len(data) < 262 else len(data) - 7
    if not 16 <= size < len(_LINES):
        return None
    line = _LINES[size]
    if len(line) + size + 2 == len(data) and data.startswith(line) and data.endswith(_LINE_END):
        return data[len(line) : -2]
    return None


def chunk_line(data: bytes, at: int) -> tuple[int, int]:
    """Return where the content of the chunk begins whose line is at this offset, and its size.

    The size is 0 for what the parser must read: the last chunk, a line with extensions or an
    incomplete one.
    """
    # Digit by digit: slicing the line and looking it up costs compiled code several times as much.
    place, size = at, 0
    last = min(at + _DIGITS_MAX, len(data) - 2)
    while place < last:
        worth = _WORTH[data[place]]
        if worth == _NO_DIGIT:
            break
        size = 16 * size + worth
        place += 1
    is_line = at < place < len(data) - 1
    if is_line and data[place] == _RETURN and data[place + 1] == _NEW_LINE:
        return place + 2, size
    return at, 0
