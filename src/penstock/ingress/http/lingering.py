"""Bounds the closing of a connection that still has bytes to write."""

import asyncio

from penstock.clock import TimerWheel


class Lingering:
    """Aborts a closing connection whose client reads nothing for `seconds`."""

    def __init__(self, transport: asyncio.Transport, wheel: TimerWheel, seconds: float) -> None:
        self._transport = transport
        self._wheel = wheel
        self._seconds = seconds
        self._unread = transport.get_write_buffer_size()
        self._timer = wheel.after(seconds, self._look_again)

    def cancel(self) -> None:
        self._timer.cancel()

    def _look_again(self) -> None:
        unread = self._transport.get_write_buffer_size()
        if unread >= self._unread:
            self._transport.abort()
            return
        self._unread = unread
        self._timer = self._wheel.after(self._seconds, self._look_again)
