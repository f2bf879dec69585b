"""HTTP's chunked framing, as far as streams of tokens need it: one small chunk, mostly alone."""

from typing import Final

LAST_CHUNK: Final = b"0\r\n\r\n"
_LINE_END: Final = b"\r\n"
# A token's event has a few hundred bytes. To format its length would cost as much as all the rest.
_LINES: Final = tuple([b"%x\r\n" % size for size in range(4096)])
_DIGITS_MAX: Final = 8
_RETURN: Final = ord("\r")
_NEW_LINE: Final = ord("\n")
# What each byte is worth as a digit; all others are worth 16.
_NO_DIGIT: Final = 16
_WORTH: Final = bytes(
    int(chr(byte), 16) if chr(byte) in "0123456789abcdefABCDEF" else _NO_DIGIT
    for byte in range(256)
)


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
    # Digit by digit: to cut the line out and look it up costs compiled code several times as much.
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
