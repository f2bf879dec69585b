"""Splits a server's event stream (SSE) into the data of its messages. Pure, and cut-proof."""

from typing import Final

from penstock.tools.mcp.shapes import protocol_failure

_BOM: Final = b"\xef\xbb\xbf"


class EventLines:
    """Takes bytes as they come, and returns the data of each message that they complete."""

    def __init__(self, event_bytes_max: int) -> None:
        self._event_bytes_max = event_bytes_max
        # The line that has not ended yet, in pieces: joining them at each byte would be quadratic.
        self._rest: list[bytes] = []
        self._rest_size = 0
        self._ended_by_return = False
        self._data: list[bytes] = []
        self._size = 0
        self._is_message = True
        self._is_first = True

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the messages that end in this piece. McpFailure if one is too long."""
        if self._ended_by_return:
            # The second half of a line's end.
            piece = piece.removeprefix(b"\n")
        if not piece:
            return []
        self._ended_by_return = piece.endswith(b"\r")
        lines = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        last = lines.pop()
        found = []
        if lines:
            lines[0] = b"".join([*self._rest, lines[0]])
            self._rest, self._rest_size = [], 0
            found = [data for line in lines if (data := self._take(line)) is not None]
        self._rest.append(last)
        self._rest_size += len(last)
        if self._size + self._rest_size > self._event_bytes_max:
            raise protocol_failure("an event of the server's answer is too long")
        return found

    def _take(self, line: bytes) -> bytes | None:
        if self._is_first:
            line, self._is_first = line.removeprefix(_BOM), False
        if not line:
            return self._end()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._event_bytes_max:
                raise protocol_failure("an event of the server's answer is too long")
        elif name == b"event":
            self._is_message = value in {b"", b"message"}
        return None

    def _end(self) -> bytes | None:
        data, is_message = b"\n".join(self._data), self._is_message
        self._data, self._size, self._is_message = [], 0, True
        # Servers open streams with an empty message that only has an id.
        return data if data and is_message else None
