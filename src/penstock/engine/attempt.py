"""One attempt at one replica, from sending the request to the last byte of the answer.

It applies the timeouts. The class of its error decides whether another replica may be tried:
ReplicaUnreachable (nothing was answered), or an Interrupted one (work began).
"""

import asyncio
from typing import TYPE_CHECKING

import msgspec
from msgspec import Raw

from penstock.clock import Clock, Timer, TimerWheel
from penstock.engine.answer_framing import Receiver
from penstock.engine.answer_screen import AnswerScreen
from penstock.engine.answer_stream import AnswerStream
from penstock.engine.connection import Connection
from penstock.engine.finish_reasons import reasons_of_answer
from penstock.engine.output_estimate import OutputEstimate
from penstock.engine.refusal import error_for
from penstock.engine.settings import EngineSettings
from penstock.engine.sink import Sink
from penstock.errors import DeadlinePassed, EngineFailed, EngineLost, Error, ReplicaUnreachable
from penstock.records.request import Api
from penstock.records.tally import Tally
from penstock.wire.engine_usage import usage_of_answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.records.usage import Usage


class AttemptLimits:
    """What all attempts at one replica share: how long they may take, their clock, a count."""

    def __init__(self, settings: EngineSettings, wheel: TimerWheel, clock: Clock) -> None:
        self.first_byte_seconds = settings.first_byte_seconds
        self.between_bytes_seconds = settings.between_bytes_seconds
        self.total_seconds = settings.total_seconds
        self.answer_bytes_max = settings.answer_bytes_max
        self.wheel = wheel
        self.monotonic: Callable[[], float] = clock.monotonic
        # Counts reads: while it does not grow and requests wait, the replica is silent.
        self.reads = 0


class Attempt(Receiver):
    """Receives the answer of one attempt. It ends once, with None or with an error."""

    # `start` makes both, so that a connection that never opens leaves no timer behind.
    _timer: Timer
    _done: "asyncio.Future[None]"

    def __init__(
        self,
        line: AttemptLimits,
        api: Api,
        sink: Sink,
        tally: Tally,
        stream: AnswerStream | None,
        estimate: OutputEstimate,
    ) -> None:
        self._line = line
        self._estimate = estimate
        # In which of the engine's APIs the answer is written.
        self._api = api
        self._sink = sink
        self._tally = tally
        self._stream = stream
        self._connection: Connection | None = None
        self._status = 0
        self._is_event_stream = False
        # Whether a stream's head has come that the sink was not notified of.
        self._begins = False
        self._body: list[bytes] = []
        self._size = 0
        # Events of the current read: the first, and all if there are more, which is rare.
        self._ready = b""
        self._all: list[bytes] | None = None
        self._error: Error | None = None
        self._ends_at = line.monotonic() + line.total_seconds
        # `_done` does not show this: cancelling the task that awaits it cancels it too.
        self.is_over = False
        self.was_answered = False
        self.first_data_at: float | None = None
        self.usage: Usage | None = None
        self.load: bytes = b""
        # What may hold events back, or withhold the answer; None for most requests.
        self.screen: AnswerScreen | None = None
        self._passed_at = 0.0
        # Called once, when the first data line of a stream has gone to the sink.
        self.on_first_data: Callable[[float], None] | None = None
        # The header line with the attempt's span, if the request is traced.
        self.traceparent: str | None = None

    @property
    def was_sent(self) -> bool:
        """Whether the request went out to the engine, and the engine has not refused it."""
        return self._connection is not None and self._status in (0, 200)

    @property
    def said_error(self) -> bool:
        """Whether the engine reported an error of its own inside the stream."""
        return self._stream is not None and self._stream.has_error

    def finish_reasons(self, choices: int) -> tuple[str, ...]:
        """Return why the model stopped, for each choice, as far as that is known."""
        if self._stream is not None:
            return self._stream.finish_reasons(choices)
        if self._status != 200:
            return ()
        return reasons_of_answer(self._api, self._body, choices)

    def start(self, connection: Connection, pieces: list[bytes | Raw]) -> "asyncio.Future[None]":
        """Send. Await the returned future, then call `stop` in any case, and then `check`."""
        self._done = asyncio.get_running_loop().create_future()
        self._connection = connection
        self._timer = self._first_timer()
        connection.send(pieces, self)
        return self._done

    def stop(self) -> None:
        """Cancel the timer; before the answer's end, drop the connection: the engine stops."""
        self._timer.cancel()
        if self._connection is not None and not self.is_over:
            self._connection.abort()
        if self.usage is None and self._stream is not None:
            self.usage = self._stream.usage()

    def check(self) -> None:
        """Raise the error that the attempt ended with, if any."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                # Its traceback refers to this frame: a reference back would keep a large body
                # until a garbage collection, which here comes late.
                del error

    def restart(self) -> bool:
        """Prepare for a second connection if nothing was answered; return whether that is so."""
        if self.was_answered or not isinstance(self._error, ReplicaUnreachable):
            return False
        self._error = None
        self._connection = None
        self.is_over = False
        return True

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
            # The sink is notified at the end of this read, with its events: in one write.
            self._begins = True

    def on_body(self, data: bytes) -> None:
        if self._stream is not None and self._is_event_stream and self._status == 200:
            try:
                events = self._stream.feed(data)
            except EngineFailed as failure:
                self._fail(failure)
                return
            if not self._ready:
                self._ready = events
            elif self._all is None:
                self._all = [self._ready, events]
            else:
                self._all.append(events)
            return
        self._size += len(data)
        if self._size > self._line.answer_bytes_max:
            self._fail(EngineFailed("The answer is larger than `engine.answer_bytes_max`."))
            return
        self._body.append(data)

    def on_read_end(self) -> None:
        line = self._line
        line.reads += 1
        events = self._ready
        if not events and self.first_data_at is None:
            self._begin()
            return
        now = line.monotonic()
        self._timer.deadline = min(now + line.between_bytes_seconds, self._ends_at)
        if not events:
            # Half an event, or one that is held back: the engine is not silent.
            return
        self._ready = b""
        if self._all is not None:
            events, self._all = b"".join(self._all), None
        is_first = self.first_data_at is None
        if is_first:
            self.first_data_at = now
        if self.screen is None or self.screen.passes(events):
            self._passed_at = now
            self._count()
            self._sink.push(events)
        else:
            self._push_screened(self.screen, events, now)
        self._begins = False
        if is_first and self.on_first_data is not None:
            self.on_first_data(now)
        if self._sink.is_full and self._connection is not None:
            # The caller is slow, not the engine: while paused only the total timeout applies.
            self._timer.deadline = self._ends_at
            self._connection.pause_reading()
            self._sink.when_drained(self._resume)

    def on_complete(self) -> None:
        if self.is_over:
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
            # Lost after the stream's end mark: the caller has the whole answer, or gets it now.
            if self._ready:
                self.on_read_end()
            self._finish(None)
            return
        if answered and not isinstance(error, EngineFailed):
            error = EngineLost(f"The engine went away while it was answering. {error.message}")
        self._finish(error)

    def _first_timer(self) -> Timer:
        # An unstreamed answer sends nothing before its end: its first byte may take the total.
        line = self._line
        left = self._ends_at - line.monotonic()
        wait = left if self._stream is None else min(line.first_byte_seconds, left)
        return line.wheel.after(wait, self._on_deadline)

    def _stream_end(self, stream: AnswerStream) -> Error | None:
        if not self._is_event_stream:
            return EngineFailed("The engine did not answer with a stream.")
        if stream.is_done or stream.has_error:
            return None
        return EngineLost("The engine ended the stream before it was complete.")

    def _whole(self) -> Error | None:
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        try:
            self.usage = usage_of_answer(self._api, body)
        except (msgspec.DecodeError, RecursionError):
            return EngineFailed("The engine's answer is not JSON.")
        if self.screen is not None:
            body = self.screen.answer(body)
            if self.screen.withheld is not None:
                # Its tokens were made for this caller: the attempt's end charges them.
                self.first_data_at = self._line.monotonic()
                self.usage = self.usage or self._estimate.whole(len(body))
                return self.screen.withheld
        try:
            shaped = self._sink.shape(body)
        except EngineFailed as failure:
            # The answer is JSON, but not what was asked for: the caller gets nothing of it.
            return failure
        self.first_data_at = self._line.monotonic()
        if self.usage is None:
            self.usage = self._estimate.whole(len(body))
        self._tally.settle(self.usage)
        self._sink.whole(shaped, self.usage)
        return None

    def _push_screened(self, screen: AnswerScreen, events: bytes, now: float) -> None:
        """Push what the screen lets pass; fail where it withholds the rest of the answer."""
        events = screen.events(events)
        if screen.withheld is None:
            self._count()
        if events:
            self._passed_at = now
            self._sink.push(events)
        elif screen.withheld is None and now - self._passed_at >= screen.comment_seconds:
            self._passed_at = now
            self._sink.comment()
        if screen.withheld is not None:
            # A stream that has not begun ends with an HTTP error instead.
            self._begins = False
            if self._stream is not None:
                # The call was made, also where nothing that is counted came before it.
                self.usage = self._stream.usage() or self._estimate.begun()
            self._fail(screen.withheld)

    def _begin(self) -> None:
        if self._begins:
            self._begins = False
            self._sink.begin()

    def _count(self) -> None:
        """Record the usage before the caller gets the events: we may be killed in between."""
        stream = self._stream
        if stream is None:
            return
        if stream.is_done and not stream.has_error:
            self._tally.settle(stream.usage())
            return
        usage = stream.latest()
        if usage is not None:
            self._tally.note(usage)

    def _resume(self) -> None:
        if self._connection is not None and not self.is_over:
            line = self._line
            now = line.monotonic()
            self._timer.deadline = min(now + line.between_bytes_seconds, self._ends_at)
            self._connection.resume_reading()

    def _on_deadline(self) -> None:
        if self._stream is not None and self._stream.is_done:
            # The caller has the whole answer; only the connection did not end.
            if self._connection is not None:
                self._connection.abort()
            self._finish(None)
            return
        waited = "in time" if self.first_data_at is None else "on"
        self._fail(DeadlinePassed(f"The engine did not answer {waited}: a timeout passed."))

    def _fail(self, error: Error) -> None:
        """End with an error that was found here, and drop the connection."""
        if self._connection is not None:
            self._connection.abort()
        self._finish(error)

    def _finish(self, error: Error | None) -> None:
        if not self.is_over:
            # One read may bring both the head and the failure: the caller's stream begins first.
            self._begin()
            self._error = error
            self.is_over = True
            if not self._done.done():
                self._done.set_result(None)
