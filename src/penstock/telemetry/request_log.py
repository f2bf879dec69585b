"""One wide line per request, at its end.

The logging module costs more than the rest of a small request, so lines are gathered and written a
few times a second. What kill -9 can lose is the last fraction of a second of *log*; usage is never
kept only here.
"""

import sys
from typing import IO, Final

_GATHERED_BYTES_MAX: Final = 64 * 1024


class RequestLog:
    """`write` is cheap; `flush` is called by a timer and at the end."""

    def __init__(self, out: IO[bytes] | None = None, *, is_on: bool = True) -> None:
        self._out = out if out is not None else sys.stderr.buffer
        self.is_on: Final = is_on
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0

    def write(self, line: bytes) -> None:
        """Take a line, with its end."""
        if not self.is_on:
            return
        self._gathered.append(line)
        self._gathered_bytes += len(line)
        if self._gathered_bytes > _GATHERED_BYTES_MAX:
            self.flush()

    def flush(self) -> None:
        if not self._gathered:
            return
        lines = b"".join(self._gathered)
        self._gathered.clear()
        self._gathered_bytes = 0
        try:
            self._out.write(lines)
            self._out.flush()
        except (OSError, ValueError):
            # A log that is full or closed must not stop the requests it is about.
            return
