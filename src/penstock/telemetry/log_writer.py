"""Writes log lines in a separate thread, so that a slow reader of the log blocks nothing else.

`put` never blocks: lines beyond the bound are dropped and counted. The descriptor itself stays
blocking, because O_NONBLOCK would also apply to every other process that shares it.
"""

import io
import logging
import os
import sys
import threading

_CLOSE_SECONDS = 1.0

logger = logging.getLogger(__name__)


class LogWriter:
    """Writes to `descriptor` from one thread, with a queue of at most `bytes_max` bytes."""

    def __init__(self, descriptor: int, bytes_max: int) -> None:
        self._descriptor = descriptor
        self._bytes_max = bytes_max
        self._waiting: list[tuple[bytes, int]] = []
        self._waiting_bytes = 0
        self._is_writing = False
        self._is_closed = False
        self._changed = threading.Condition()
        self.lines_dropped = 0
        # A daemon thread, so that a write that never returns does not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def put(self, data: bytes, lines: int) -> None:
        """Queue whole lines for writing, or drop them if the queue is full."""
        with self._changed:
            if self._is_closed or self._waiting_bytes + len(data) > self._bytes_max:
                self.lines_dropped += lines
                return
            self._waiting.append((data, lines))
            self._waiting_bytes += len(data)
            self._changed.notify_all()

    def flush(self, seconds: float) -> bool:
        """Wait at most `seconds` until all queued lines are written; return whether they are."""
        with self._changed:
            return self._changed.wait_for(self._is_idle, seconds)

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Write queued lines for at most `seconds`, and drop the rest."""
        self.flush(seconds)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _is_idle(self) -> bool:
        return not self._waiting and not self._is_writing

    def _run(self) -> None:
        reported = 0
        while True:
            with self._changed:
                self._is_writing = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                if self._is_closed:
                    self.lines_dropped += sum(lines for _, lines in self._waiting)
                    return
                batch, self._waiting, self._waiting_bytes = self._waiting, [], 0
                self._is_writing = True
            if not self._write(b"".join(data for data, _ in batch)):
                with self._changed:
                    self.lines_dropped += sum(lines for _, lines in batch)
            elif self.lines_dropped > reported:
                extra = {"action": "log_lines_dropped", "lines": self.lines_dropped - reported}
                reported = self.lines_dropped
                logger.warning("log lines were dropped", extra=extra)

    def _write(self, data: bytes) -> bool:
        """Write all data; return False if the log is full or closed, and the lines are lost."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            return False
        return True


class WrittenText(io.TextIOBase):
    """A text stream that writes to a `LogWriter`, for code that prints to standard error."""

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer

    def write(self, text: str, /) -> int:
        self._writer.put(text.encode(errors="backslashreplace"), text.count("\n"))
        return len(text)


def standard_error() -> int:
    """Return the descriptor of standard error, or -1 (every write fails) if it is closed."""
    # If the process began without standard error, descriptor 2 may be a client's connection.
    stream = sys.__stderr__
    return -1 if stream is None else stream.fileno()
