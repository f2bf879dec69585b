"""One try at one replica, from the request's last byte out to the answer's last byte in.

It owns the timeouts and says, by the class of the error it ends with, whether another replica may
be tried: ReplicaUnreachable (nothing was answered), or an Interrupted one (work began).
"""

import asyncio
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from penstock.clock import Clock, Timer, TimerWheel
from penstock.engine.answer_stream import AnswerStream
from penstock.engine.connection import Connection
from penstock.engine.refusal import error_for
from penstock.engine.settings import Settings
from penstock.engine.sink import Sink
from penstock.engine.tally import Tally
from penstock.errors import DeadlinePassed, EngineFailed, EngineLost, Error
from penstock.records.request import Api
from penstock.wire.engine_usage import usage_of_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.records.usage import Usage


class Pulse:
    """Counts what comes from one replica: standing still while requests wait, it is silent."""

    __slots__ = ("reads",)

    def __init__(self) -> None:
        self.reads = 0


class Attempt:
    """The receiving side of one try. It ends once, with None or with an error."""

    __slots__ = (
        "_body",
        "_clock",
        "_connection",
        "_done",
        "_ends_at",
        "_error",
        "_is_event_stream",
        "_out",
        "_settings",
        "_sink",
        "_size",
        "_status",
        "_stream",
        "_tally",
        "_timer",
        "_wheel",
        "api",
        "first_data_at",
        "load",
        "pulse",
        "usage",
        "was_answered",
        "when_first",
    )  # fmt: skip

    # Armed by `run`, not before: a connection that never opens must leave no timer behind.
    _timer: Timer
    # Given by the replica's client, which all its attempts share.
    pulse: Pulse
    # In which of the engine's APIs the answer is written.
    api: Api

    def __init__(
        self,
        sink: Sink,
        tally: Tally,
        stream: AnswerStream | None,
        settings: Settings,
        wheel: TimerWheel,
        clock: Clock,
    ) -> None:
        self._sink = sink
        self._tally = tally
        self._stream = stream
        self._settings = settings
        self._clock = clock
        self._connection: Connection | None = None
        self._status = 0
        self._is_event_stream = False
        self._body: list[bytes] = []
        self._size = 0
        self._out: list[bytes] = []
        self._wheel = wheel
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._error: Error | None = None
        self._ends_at = clock.monotonic() + settings.total_seconds
        self.was_answered = False
        self.first_data_at: float | None = None
        self.usage: Usage | None = None
        self.load: bytes = b""
        # Told once, with the time, when the first data line of a stream is there.
        self.when_first: Callable[[float], None] | None = None

    def restart(self) -> None:
        """Be ready for a second connection, after one on which nothing was answered."""
        self._done = asyncio.get_running_loop().create_future()

    @property
    def said_error(self) -> bool:
        """Whether the engine reported an error of its own inside the stream."""
        return self._stream is not None and self._stream.has_error

    async def run(self, connection: Connection, pieces: list[bytes | Raw]) -> None:
        """Send, and wait for the end. Cancelling drops the connection, and the engine stops."""
        self._connection = connection
        self._timer = self._first_timer()
        connection.send(pieces, self)
        try:
            await self._done
        finally:
            self._timer.cancel()
            if not self._done.done() or self._done.cancelled():
                connection.abort()
            if self.usage is None and self._stream is not None:
                self.usage = self._stream.usage()
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                # Its traceback holds this frame: if the frame held it too, all of a large body
                # would stay until a collection, which here comes late.
                del error

    # Receiver

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.was_answered = True
        self._status = status
        for name, value in headers:
            if name == b"content-type":
                self._is_event_stream = value.startswith(b"text/event-stream")
            elif name == b"endpoint-load-metrics":
                self.load = value
        if status == 200 and self._stream is not None and self._is_event_stream:
            self._sink.begin()

    def on_body(self, data: bytes) -> None:
        if self._stream is not None and self._is_event_stream and self._status == 200:
            try:
                events = self._stream.feed(data)
            except EngineFailed as failure:
                self._fail(failure)
                return
            if events:
                self._out.append(events)
            return
        self._size += len(data)
        if self._size > self._settings.answer_bytes_max:
            self._fail(EngineFailed("The answer is larger than `engine.answer_bytes_max`."))
            return
        self._body.append(data)

    def on_read_end(self) -> None:
        self.pulse.reads += 1
        out = self._out
        if not out and self.first_data_at is None:
            return
        now = self._clock.monotonic()
        self._timer.deadline = min(now + self._settings.between_bytes_seconds, self._ends_at)
        if not out:
            # Half an event, or one that is held back: the engine is not silent.
            return
        self._out = []
        if self.first_data_at is None:
            self.first_data_at = now
            if self.when_first is not None:
                self.when_first(now)
        self._count()
        self._sink.push(out[0] if len(out) == 1 else b"".join(out))
        if self._sink.is_full and self._connection is not None:
            # The caller is slow, not the engine: while reading is paused only the total runs on.
            self._timer.deadline = self._ends_at
            self._connection.pause_reading()
            self._sink.when_drained(self._resume)

    def on_complete(self) -> None:
        if self._done.done():
            return
        if self._status != 200:
            self._finish(error_for(self._status, b"".join(self._body)))
        elif self._stream is not None:
            self._finish(self._stream_end(self._stream))
        else:
            self._finish(self._whole())

    def on_lost(self, error: Error, *, answered: bool) -> None:
        self.was_answered = answered
        if self._stream is not None and self._stream.is_done:
            # Lost after the stream's end mark: the caller has all there is.
            self._finish(None)
            return
        if answered and not isinstance(error, EngineFailed):
            error = EngineLost(f"The engine went away while it was answering. {error.message}")
        self._finish(error)

    def _first_timer(self) -> Timer:
        # What is not streamed says nothing before its end: its first byte may take the total.
        left = self._ends_at - self._clock.monotonic()
        wait = min(self._settings.first_byte_seconds, left) if self._stream else left
        return self._wheel.after(wait, self._on_deadline)

    def _stream_end(self, stream: AnswerStream) -> Error | None:
        if not self._is_event_stream:
            return EngineFailed("The engine did not answer with a stream.")
        if stream.is_done or stream.has_error:
            return None
        return EngineLost("The engine ended the stream before it was complete.")

    def _whole(self) -> Error | None:
        body = b"".join(self._body)
        try:
            self.usage = usage_of_answer(self.api, body)
        except (msgspec.DecodeError, RecursionError):
            return EngineFailed("The engine's answer is not JSON.")
        try:
            shaped = self._sink.shape(body)
        except EngineFailed as failure:
            # The answer is JSON, but not what was asked for: the caller gets nothing of it.
            return failure
        self.first_data_at = self._clock.monotonic()
        self._tally.settle(self.usage)
        self._sink.whole(shaped, self.usage)
        return None

    def _count(self) -> None:
        """Say what was made, before the caller gets it: we may be killed in between."""
        stream = self._stream
        if stream is None:
            return
        if stream.is_done and not stream.has_error:
            self._tally.settle(stream.usage())
            return
        usage = stream.latest()
        if usage is not None:
            self._tally.note(usage)
        else:
            self._tally.note_uncounted()

    def _resume(self) -> None:
        if self._connection is not None and not self._done.done():
            now = self._clock.monotonic()
            self._timer.deadline = min(now + self._settings.between_bytes_seconds, self._ends_at)
            self._connection.resume_reading()

    def _on_deadline(self) -> None:
        if self._stream is not None and self._stream.is_done:
            # The caller has all there is; only the connection was not ended.
            if self._connection is not None:
                self._connection.abort()
            self._finish(None)
            return
        waited = "in time" if self.first_data_at is None else "on"
        self._fail(DeadlinePassed(f"The engine did not answer {waited}: a timeout passed."))

    def _fail(self, error: Error) -> None:
        """End with an error of our own finding; the connection is not to be used again."""
        if self._connection is not None:
            self._connection.abort()
        self._finish(error)

    def _finish(self, error: Error | None) -> None:
        if not self._done.done():
            self._error = error
            self._done.set_result(None)
