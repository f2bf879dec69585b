"""Logs one wide line per request, at its end.

The logging module costs more than the rest of a small request, so lines are buffered and passed to
the log's writer a few times a second. A kill -9 can lose the last fraction of a second of *log*,
but no usage, which is never kept only here.
"""

from collections.abc import Callable
from typing import Final

_GATHERED_BYTES_MAX: Final = 64 * 1024


class RequestLog:
    """Buffers lines. `write` is cheap; the worker calls `flush` by a timer and at its end.

    `put` (`LogWriter.put`) takes lines and their number, and never blocks.
    """

    def __init__(self, put: Callable[[bytes, int], object], *, is_on: bool = True) -> None:
        self._put = put
        self.is_on: Final = is_on
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0

    def write(self, line: bytes) -> None:
        """Buffer a line, which includes its newline."""
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
        count = len(self._gathered)
        self._gathered.clear()
        self._gathered_bytes = 0
        self._put(lines, count)
