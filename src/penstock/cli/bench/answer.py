"""Receives one streamed answer: the time of its first token, its usage and its cost.

It parses no more than a client would, and keeps only the text, for the next turn.
"""

import asyncio
import math
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.cli.bench.answer_chunk import Delta, decode_chunk, fault_in, name_of
from penstock.clock import Clock
from penstock.engine.answer_framing import Receiver
from penstock.errors import Error
from penstock.wire.engine_usage import counts_of

if TYPE_CHECKING:
    from penstock.records.usage import Usage

OK: Final = "ok"
UNREACHABLE: Final = "unreachable"
_ERROR_BYTES_MAX: Final = 64 * 1024
_COST: Final = b": cost-usd "
_NANOUSD_PER_USD: Final = 10**9


class StreamedAnswer(Receiver):
    """One answer as it arrives. The future `ended` is done when nothing more will come."""

    def __init__(self, clock: Clock, bytes_max: int) -> None:
        self._clock = clock
        self._bytes_left = bytes_max
        self._status = 0
        self._is_stream = False
        self._rest = b""
        self._texts: list[str] = []
        self._has_done = False
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.was_answered = False
        # Whether the connection may be used again.
        self.is_complete = False
        # "ok", or what went wrong; empty until the answer ends.
        self.code = ""
        self.first_at: float | None = None
        self.last_at = 0.0
        self.usage: Usage | None = None
        self.cost_nanousd: int | None = None

    @property
    def text(self) -> str:
        return "".join(self._texts)

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.was_answered = True
        self._status = status
        kind = next((value for name, value in headers if name == b"content-type"), b"")
        self._is_stream = status == 200 and kind.startswith(b"text/event-stream")

    def on_body(self, data: bytes) -> None:
        if self.code:
            return
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self.end("too_large")
            return
        self._rest += data
        if not self._is_stream:
            self._rest = self._rest[:_ERROR_BYTES_MAX]
            return
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            self._take(line.rstrip(b"\r"))

    def on_read_end(self) -> None: ...

    def on_complete(self) -> None:
        self.is_complete = True
        if self._status != 200:
            self.end(f"{self._status} {fault_in(self._rest)}".strip())
        elif not self._is_stream:
            self.end("not_a_stream")
        else:
            self.end(OK if self._has_done else "cut")

    def on_lost(self, error: Error, *, answered: bool) -> None:
        del error
        self.end("cut" if answered else UNREACHABLE)

    def end(self, code: str) -> None:
        """End the answer; only the first call's `code` counts."""
        self.code = self.code or code
        if not self.ended.done():
            self.ended.set_result(None)

    def _take(self, line: bytes) -> None:
        if line.startswith(_COST):
            self.cost_nanousd = _nanousd(line[len(_COST) :])
        if not line.startswith(b"data:"):
            return
        payload = line[5:].strip()
        if payload == b"[DONE]":
            self._has_done = True
            return
        try:
            chunk = decode_chunk(payload)
        except msgspec.DecodeError:
            self.end("not_json")
            return
        if chunk.error is not None:
            self.end(f"stream {name_of(chunk.error)}")
            return
        if chunk.usage is not None:
            self.usage = counts_of(chunk.usage)
        if any(self._hear(choice.delta) for choice in chunk.choices):
            self.last_at = self._clock.monotonic()
            if self.first_at is None:
                self.first_at = self.last_at

    def _hear(self, delta: Delta) -> bool:
        """Return whether `delta` has a token; a stream's first event only names a role."""
        if delta.content:
            self._texts.append(delta.content)
        return bool(delta.content or delta.reasoning or delta.reasoning_content or delta.tool_calls)


def _nanousd(text: bytes) -> int | None:
    try:
        dollars = float(text)
    except ValueError:
        return None
    return round(dollars * _NANOUSD_PER_USD) if math.isfinite(dollars) else None
