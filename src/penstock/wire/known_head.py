"""A head that comes again and again, known by its bytes instead of parsed again.

From answer to answer little changes in the heads that an engine writes: the date, the length of
the body. What stands around these values is compared, they are read from their places, and the
parser is not asked. Whatever else comes is the parser's.
"""

from typing import Final

Headers = list[tuple[bytes, bytes]]

_HEAD_BYTES_MAX: Final = 8 * 1024
_VALUE_BYTES_MAX: Final = 256
_DIGITS_MAX: Final = 12
_VARIABLE_MAX: Final = 6
# A peer whose heads have nothing in common is not compared with itself for ever.
_MISSES_MAX: Final = 4
_END: Final = b"\r\n\r\n"
_SPACE: Final = ord(" ")
_COLON: Final = ord(":")
_RETURN: Final = ord("\r")
_ZERO: Final = ord("0")
_NINE: Final = ord("9")
_LENGTH: Final = b"content-length"
_DATE: Final = b"date"
_FRAMING: Final = b"transfer-encoding"
_CHUNKED: Final = b"chunked"
# With these something else than so many bytes may follow, or the connection is not kept.
_UNUSUAL: Final = frozenset({
    b"transfer-encoding", b"upgrade", b"trailer", b"connection", b"proxy-connection",
})  # fmt: skip


class KnownHead:
    """The last head of a connection: its headers, and the bytes around values that change in it.

    Either of whole answers, which have a length, or of streamed ones, which come in chunks.
    """

    __slots__ = ("_fixed", "_misses", "_variable", "headers", "is_chunked")

    def __init__(self, *, is_chunked: bool = False) -> None:
        self.is_chunked = is_chunked
        # By their names in small letters. Whoever is given these reads them at once: the next head
        # is written into the same list.
        self.headers: Headers = []
        # One piece more than there are variable headers, which are told by their index.
        self._fixed: list[bytes] = []
        self._variable: list[int] = []
        self._misses = 0

    def body_at(self, data: bytes) -> int:
        """Where the body begins, if this is such a head with a whole body and no more; else -1.

        Of an answer in chunks any part may be there, or nothing but the head.
        """
        if not self._fixed:
            return -1
        start = self._read(data)
        self._misses = self._misses + 1 if start < 0 else 0
        return start

    def learn(self, data: bytes, headers: Headers) -> None:
        """From data in which a parser found these headers, a body, and nothing else.

        Or the beginning of a body, if that is in chunks.
        Each line must be one header as it is usually written: what a parser takes for the head must
        be what is taken for it here.
        """
        last, self._fixed = self._fixed, []
        if self._misses >= _MISSES_MAX:
            return
        end = data.find(_END, 0, _HEAD_BYTES_MAX)
        lines = data[:end].split(b"\r\n") if end > 0 else []
        length = self._length_in(headers)
        if len(lines) != len(headers) + 1 or length < 0:
            return
        variable = changed_in(headers, self.headers, self._variable) if last else []
        self._variable, places, at = [], [0], len(lines[0]) + 2
        for index, (name, value) in enumerate(headers):
            line = lines[index + 1]
            if not is_usual(line, name, value):
                return
            if name in (_LENGTH, _DATE) or index in variable:
                places += (at + len(line) - len(value), at + len(line))
                self._variable.append(index)
            at += len(line) + 2
        is_certain = self.is_chunked or len(data) == end + len(_END) + length
        if not is_certain or len(self._variable) > _VARIABLE_MAX:
            return
        places.append(end + len(_END))
        # A copy: trailers, which come behind the chunks, are put to the parser's own.
        self.headers = headers.copy()
        self._fixed = [data[places[n] : places[n + 1]] for n in range(0, len(places), 2)]

    def _length_in(self, headers: Headers) -> int:
        """How many bytes follow such headers; 0 for chunks, which tell it themselves.

        -1 if these are not the headers of such an answer, or if anything else may follow.
        """
        framings, length = 0, -1
        for name, value in headers:
            if self.is_chunked and name == _FRAMING and value == _CHUNKED:
                framings += 1
            elif name in _UNUSUAL or (name == _LENGTH and self.is_chunked):
                return -1
            elif name == _LENGTH:
                length = number_of(value)
        if self.is_chunked:
            return 0 if framings == 1 else -1
        return length

    def _read(self, data: bytes) -> int:
        """Write the values into the headers; where the body begins."""
        headers = self.headers
        at, length = len(self._fixed[0]), -1
        if data[:at] != self._fixed[0]:
            return -1
        for number, index in enumerate(self._variable):
            name, last = headers[index]
            end = end_of_value(data, at, len(last))
            value = data[at:end]
            if value != last:
                if end <= at or not is_plain(value):
                    return -1
                headers[index] = (name, value)
            if name == _LENGTH:
                length = number_of(value)
                if length < 0:
                    return -1
            fixed = self._fixed[number + 1]
            at = end + len(fixed)
            if data[end:at] != fixed:
                return -1
        return at if self.is_chunked or len(data) == at + length else -1


def changed_in(headers: Headers, last: Headers, variable: list[int]) -> list[int]:
    """Where values differ from the last ones, or did so before; nothing if names do."""
    if len(headers) != len(last):
        return []
    found: list[int] = []
    for index, (name, value) in enumerate(headers):
        last_name, last_value = last[index]
        if name != last_name:
            return []
        if value != last_value or index in variable:
            found.append(index)
    return found


def end_of_value(data: bytes, at: int, usual_bytes: int) -> int:
    """Most are as long as the last one: `is_plain` then knows that it does not end before."""
    end = at + usual_bytes
    if end < len(data) and data[end] == _RETURN:
        return end
    return data.find(b"\r", at, at + _VALUE_BYTES_MAX)


def number_of(digits: bytes) -> int:
    """What they say; -1 if that is no number, or one that no length has."""
    if not 0 < len(digits) <= _DIGITS_MAX:
        return -1
    number = 0
    for byte in digits:
        if byte < _ZERO or byte > _NINE:
            return -1
        number = 10 * number + byte - _ZERO
    return number


def is_usual(line: bytes, name: bytes, value: bytes) -> bool:
    """Whether this line is this header and ends where it seems to."""
    at = len(name)
    return (
        len(line) == at + 2 + len(value)
        and line[at] == _COLON
        and line[at + 1] == _SPACE
        and line.endswith(value)
    )


def is_plain(value: bytes) -> bool:
    """Whether a parser takes the whole of it for a value: it cuts spaces, and refuses controls."""
    return value[0] != _SPACE and value[-1] != _SPACE and value.decode("latin-1").isprintable()
