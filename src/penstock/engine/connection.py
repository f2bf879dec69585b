"""One HTTP/1.1 connection to an engine: uvloop transport, httptools parser, callbacks, no tasks.

Our own, because httpx costs 16 times the CPU of this per request and aiohttp's client 2 to 2.5
times (docs/decisions/0003-upstream-connection.md). It supports only what an engine needs: one
request at a time, content-length bodies up, any framing down (`answer_framing.py`).
"""

import asyncio
import logging
from typing import cast

from msgspec import Raw

from penstock.engine.answer_framing import AnswerFraming, Receiver
from penstock.errors import EngineFailed, ReplicaUnreachable

logger = logging.getLogger(__name__)


class IdleCallback:
    """The pool's callbacks, for a connection that became idle or was closed.

    A class, not a Protocol, so that compiled code calls it directly.
    """

    def idle(self, connection: "Connection") -> None:
        raise NotImplementedError

    def closed(self, connection: "Connection") -> None:
        raise NotImplementedError


class Connection(asyncio.Protocol):
    """A connection, pooled while idle. `is_usable` is false once either side has closed it."""

    def __init__(self, on_idle: IdleCallback, head_bytes_max: int) -> None:
        self._on_idle = on_idle
        self._framing = AnswerFraming(head_bytes_max)
        self._transport: asyncio.Transport | None = None
        # The receiver that awaits an answer; None on an idle connection.
        self._receiver: Receiver | None = None
        self._is_paused = False
        self.is_usable = False
        self.idle_since = 0.0

    def send(self, pieces: list[bytes | Raw], receiver: Receiver) -> None:
        """Send one request, head and body; its answer goes to `receiver`."""
        assert self._receiver is None
        assert self._transport is not None
        self._receiver = receiver
        self._framing.begin(receiver)
        first = pieces[0]
        if len(pieces) == 1 and isinstance(first, bytes):
            self._transport.write(first)
        else:
            # In one system call: the kernel would send each write at once, and on the same host
            # also do the engine's receiving, on our time.
            self._transport.writelines([memoryview(piece) for piece in pieces])

    def abort(self) -> None:
        """Drop the connection at once; the engine stops generating when it notices."""
        self._receiver = None
        self._framing.stop()
        self.is_usable = False
        if self._transport is not None:
            self._transport.abort()

    def pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()
            self._is_paused = True

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._is_paused = False

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop sets TCP_NODELAY on every TCP transport by itself.
        self._transport = cast("asyncio.Transport", transport)
        self.is_usable = True

    def data_received(self, data: bytes) -> None:
        receiver = self._receiver
        if receiver is None:
            # No request is in flight: an engine that sends unasked must not get the next request.
            self.abort()
            return
        try:
            self._framing.feed(data)
            # Skipped if the receiver has dropped the connection meanwhile.
            if self._receiver is receiver:
                receiver.on_read_end()
                if self._framing.is_complete:
                    self._complete(receiver)
        except EngineFailed as failure:
            # Without its traceback, which refers to the receiver, which refers to the failure.
            self._fail(receiver, failure.with_traceback(None))
        except Exception:
            logger.exception("receiver crashed", extra={"action": "crash"})
            # Also after the receiver's last callback: if that one failed, nothing else ends it.
            self._fail(receiver, EngineFailed("The engine's answer could not be read."))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_usable = False
        self._transport = None
        receiver, self._receiver = self._receiver, None
        if receiver is not None and exc is None and self._framing.ends_by_close:
            receiver.on_read_end()
            receiver.on_complete()
        elif receiver is not None:
            reason = f"The connection to the engine was lost: {exc or 'closed'}."
            receiver.on_lost(ReplicaUnreachable(reason), answered=self._framing.has_begun)
        self._on_idle.closed(self)
        self._framing.close()

    def _complete(self, receiver: Receiver) -> None:
        """End the answer, and return the connection to the pool if it can be reused."""
        self._receiver = None
        receiver.on_complete()
        if not self.is_usable or not self._framing.is_reusable:
            self.abort()
            return
        if self._is_paused:
            self.resume_reading()
        self._on_idle.idle(self)

    def _fail(self, receiver: Receiver, failure: EngineFailed) -> None:
        self.abort()
        receiver.on_lost(failure, answered=True)
