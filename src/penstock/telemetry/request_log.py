"""One wide line per request, at its end.

The logging module costs more than the rest of a small request, so lines are encoded by msgspec,
gathered, and written a few times a second. What kill -9 can lose is the last fraction of a second
of *log*; usage is never kept only here.
"""

import sys
from datetime import datetime
from typing import IO

import msgspec

_BUFFER_BYTES_MAX = 64 * 1024


class RequestLine(msgspec.Struct, omit_defaults=True):
    """What is said about a request. No prompt, no completion, no key."""

    time: datetime
    event: str
    request: str
    status: int
    outcome: str
    account: str = ""
    key: str = ""
    model: str = ""
    replica: str = ""
    session: str = ""
    attempts: int = 0
    stream: bool = False
    path: str = ""
    error: str = ""
    caller_request: str = ""
    queue_ms: float = 0.0
    first_token_ms: float | None = None
    total_ms: float = 0.0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    workflow: str = ""
    cost_usd: str = ""


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
