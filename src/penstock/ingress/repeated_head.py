"""Heads that a connection sends again and again, known by their bytes instead of parsed again.

Clients keep their connections, and from request to request little changes in the heads that they
send: the body's length, a session's name. What stands around these values is compared, they are
read from their places, and the parser is not asked. Whatever else comes is the parser's.
"""

from typing import Final

from penstock.ingress.caller_headers import CallerHeaders, is_read
from penstock.ingress.exchange import ClientConnection, Exchange, Headers
from penstock.wire.known_head import changed_in, end_of_value, is_plain, is_usual, number_of

_HEAD_BYTES_MAX: Final = 8 * 1024
_VARIABLE_MAX: Final = 4
# A client whose heads have nothing in common is not compared with itself for ever.
_MISSES_MAX: Final = 4
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length"
# With these something else than so many bytes may follow, or the connection is another's.
_UNUSUAL: Final = frozenset({
    b"transfer-encoding", b"upgrade", b"expect", b"trailer", b"connection", b"proxy-connection",
})  # fmt: skip
_USUAL_VALUES: Final = frozenset({b"keep-alive", b"Keep-Alive"})


class RepeatedHead:
    """The last head of a connection: its headers, and the bytes around values that change in it."""

    __slots__ = ("_fixed", "_misses", "_variable", "body_bytes", "caller", "headers", "target")

    def __init__(self) -> None:
        self.target = b""
        self.headers: Headers = []
        # What was read of these headers.
        self.caller: CallerHeaders | None = None
        # How long the body is that `body_at` has found.
        self.body_bytes = 0
        # One piece more than there are variable headers, which are told by their index.
        self._fixed: list[bytes] = []
        self._variable: list[int] = []
        self._misses = 0

    def body_at(self, data: bytes) -> int:
        """Where the body begins, if this is such a head and nothing follows its body; else -1.

        Perhaps the body has not come to its end.
        """
        if not self._fixed:
            return -1
        headers = self.headers.copy()
        start = self._read(data, headers)
        if start < 0:
            self._misses += 1
            return -1
        self._misses = 0
        if self.caller is None or _have_changed(headers, self.headers, self._variable):
            self.caller = CallerHeaders(headers, self.caller)
        self.headers = headers
        return start

    def request_on(self, connection: ClientConnection) -> Exchange:
        """A request with the head that was found."""
        exchange = Exchange(connection, self.target, self.headers)
        exchange.caller = self.caller
        exchange.is_active = True
        return exchange

    def learn(self, data: bytes, exchange: Exchange | None) -> None:
        """From a read that began and ended heads, if it is certain that it was this one.

        Each line must be one header as it is usually written: what a parser takes for the head must
        be what is taken for it here.
        """
        fixed, self._fixed = self._fixed, []
        if exchange is None or not exchange.keep_alive or self._misses >= _MISSES_MAX:
            return
        headers = exchange.headers
        end = data.find(_END, 0, _HEAD_BYTES_MAX)
        lines = data[:end].split(b"\r\n") if end > 0 else []
        if len(lines) != len(headers) + 1 or lines[0] != b"POST %s HTTP/1.1" % exchange.target:
            return
        is_like_last = fixed and self.target == exchange.target
        variable = changed_in(headers, self.headers, self._variable) if is_like_last else []
        self._variable, places, at, length = [], [0], len(lines[0]) + 2, -1
        for index, (name, value) in enumerate(headers):
            line = lines[index + 1]
            if not is_usual(line, name, value):
                return
            if name in _UNUSUAL and (index in variable or value not in _USUAL_VALUES):
                # Where it changes, its next value may be one that is not usual.
                return
            if name == _LENGTH:
                length = number_of(value)
            if name == _LENGTH or index in variable:
                places += (at + len(line) - len(value), at + len(line))
                self._variable.append(index)
            at += len(line) + 2
        if (
            length < 0
            or len(data) > end + len(_END) + length
            or len(self._variable) > _VARIABLE_MAX
        ):
            return
        places.append(end + len(_END))
        self.target, self.headers, self.caller = exchange.target, headers, None
        self._fixed = [data[places[n] : places[n + 1]] for n in range(0, len(places), 2)]

    def _read(self, data: bytes, headers: Headers) -> int:
        """Write the values into these headers; where the body begins."""
        at, length = len(self._fixed[0]), -1
        if data[:at] != self._fixed[0]:
            return -1
        for number, index in enumerate(self._variable):
            name, last = headers[index]
            end = end_of_value(data, at, len(last))
            value = data[at:end]
            if end <= at or (value != last and not is_plain(value)):
                return -1
            if name == _LENGTH:
                length = number_of(value)
                if length < 0:
                    return -1
            headers[index] = (name, value)
            fixed = self._fixed[number + 1]
            at = end + len(fixed)
            if data[end:at] != fixed:
                return -1
        self.body_bytes = length
        return at if len(data) <= at + length else -1


def _have_changed(headers: Headers, last: Headers, variable: list[int]) -> bool:
    for index in variable:  # noqa: SIM110 - a loop is compiled, a generator is called
        if headers[index] != last[index] and is_read(headers[index][0]):
            return True
    return False
