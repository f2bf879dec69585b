"""Recognises a head that a connection repeats by its bytes, instead of parsing it again.

From message to message on one connection only the values of `content-length`, `date` and the
session's name change. The bytes around these values are compared, and the values are read from
their places. A parser reads every other head.
"""

from typing import Final

Headers = list[tuple[bytes, bytes]]

_HEAD_BYTES_MAX: Final = 8 * 1024
_VALUE_BYTES_MAX: Final = 64
_DIGITS_MAX: Final = 12
# After so many misses in a row no head is learned: the peer's heads have nothing in common.
_MISSES_MAX: Final = 4
_END: Final = b"\r\n\r\n"
_SPACE: Final = ord(" ")
_ZERO: Final = ord("0")
_NINE: Final = ord("9")
_LENGTH: Final = b"content-length"
# Agents share a client's connections: without the session's name here the parser would read most
# of their heads, and a small request would take an eighth more instructions.
_VARIABLE: Final = frozenset({
    _LENGTH, b"date", b"x-session-affinity", b"x-session-id", b"session-id",
})  # fmt: skip
_CONNECTION: Final = b"connection"
_KEEP_ALIVE: Final = b"keep-alive"
# With these the body may not be `content-length` bytes, or the connection may not be kept.
_UNUSUAL: Final = frozenset({
    b"transfer-encoding", b"upgrade", b"expect", b"trailer", b"connection", b"proxy-connection",
})  # fmt: skip


class KnownHead:
    """The last head of a connection that can be recognised; of requests or of answers."""

    def __init__(self) -> None:
        # The headers of the head that `body_at` found, with lower-case names, and its length.
        self.headers: Headers = []
        self.body_bytes = 0
        # The bytes around the variable headers' values; and the indexes of these headers.
        self._fixed: list[bytes] = []
        self._variable: list[int] = []
        self._misses = 0

    def body_at(self, data: bytes) -> int:
        """Find where the body begins, if `data` begins with the known head; -1 if it does not.

        `headers` and `body_bytes` are then those of this head. The caller must check how much of
        the body `data` holds, and whether anything follows.
        """
        if not self._fixed:
            return -1
        start = self._read(data)
        self._misses = self._misses + 1 if start < 0 else 0
        return start

    def learn(self, data: bytes, headers: Headers, beginning: bytes) -> bool:
        """Remember the head that `data` begins with, in which a parser found these headers.

        Only if it begins with `beginning`, has one `content-length`, and each line is one header in
        the usual form: the parser's head must be the head that is compared here.
        """
        end = data.find(_END, 0, _HEAD_BYTES_MAX)
        if end < 0 or self._misses >= _MISSES_MAX or data[: len(beginning)] != beginning:
            return False
        lines = data[:end].split(b"\r\n")
        if len(lines) != len(headers) + 1:
            return False
        variable: list[int] = []
        fixed: list[bytes] = []
        lengths, begin, at = 0, 0, len(lines[0]) + 2
        for index, (name, value) in enumerate(headers):
            line = lines[index + 1]
            if not _is_usual(line, name, value):
                return False
            if name in _VARIABLE:
                lengths += name == _LENGTH
                variable.append(index)
                fixed.append(data[begin : at + len(line) - len(value)])
                begin = at + len(line)
            at += len(line) + 2
        if lengths != 1:
            return False
        fixed.append(data[begin : end + len(_END)])
        self._fixed, self._variable, self.headers = fixed, variable, headers
        return True

    def _read(self, data: bytes) -> int:
        headers = self.headers.copy()
        at, length = len(self._fixed[0]), -1
        if data[:at] != self._fixed[0]:
            return -1
        for number, index in enumerate(self._variable):
            name = headers[index][0]
            # Not found: the value is incomplete, or too long for these headers.
            end = data.find(b"\r", at, at + _VALUE_BYTES_MAX)
            if end <= at:
                return -1
            value = data[at:end]
            if name == _LENGTH:
                length = number_of(value)
                if length < 0:
                    return -1
            elif not _is_plain(value):
                return -1
            headers[index] = (name, value)
            fixed = self._fixed[number + 1]
            at = end + len(fixed)
            if data[end:at] != fixed:
                return -1
        self.headers, self.body_bytes = headers, length
        return at


def number_of(digits: bytes) -> int:
    """Return the number in these digits; -1 if they are not digits, or too many for a length."""
    if not 0 < len(digits) <= _DIGITS_MAX:
        return -1
    number = 0
    for byte in digits:
        if byte < _ZERO or byte > _NINE:
            return -1
        number = 10 * number + byte - _ZERO
    return number


def _is_usual(line: bytes, name: bytes, value: bytes) -> bool:
    """Return whether the line is this header, written as `name: value`, and not about framing."""
    if name in _UNUSUAL and (name != _CONNECTION or value.lower() != _KEEP_ALIVE):
        return False
    at = len(name)
    return (
        len(line) == at + 2 + len(value) and line[at : at + 2] == b": " and line[at + 2 :] == value
    )


def _is_plain(value: bytes) -> bool:
    """Return whether a parser keeps all of the value: parsers strip spaces and refuse controls."""
    return value[0] != _SPACE and value[-1] != _SPACE and value.decode("latin-1").isprintable()
