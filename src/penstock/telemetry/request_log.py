"""One wide line per request, at its end.

The logging module costs more than the rest of a small request, so lines are encoded by msgspec,
gathered, and written a few times a second. What kill -9 can lose is the last fraction of a second
of *log*; usage is never kept only here.
"""

import sys
from typing import IO

import msgspec

from penstock.telemetry.request_line import RequestLine

_BUFFER_BYTES_MAX = 64 * 1024


class RequestLog:
    """`write` is cheap; `flush` is called by a timer and at the end."""

    def __init__(self, out: IO[bytes] | None = None, *, is_on: bool = True) -> None:
        self._out = out if out is not None else sys.stderr.buffer
        self._is_on = is_on
        self._buffer = bytearray()
        self._encoder = msgspec.json.Encoder()

    def write(self, line: RequestLine) -> None:
        if not self._is_on:
            return
        self._buffer += self._encoder.encode(line)
        self._buffer += b"\n"
        if len(self._buffer) > _BUFFER_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        if not self._buffer:
            return
        lines, self._buffer = bytes(self._buffer), bytearray()
        try:
            self._out.write(lines)
            self._out.flush()
        except (OSError, ValueError):
            # A log that is full or closed must not stop the requests it is about.
            return
