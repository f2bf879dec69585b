"""Bounds the closing of a connection that still has bytes to write."""

import asyncio
import socket
import struct
from typing import Final

from penstock.clock import TimerWheel

# On, and no seconds: closing drops what is unsent.
_DROP_UNSENT: Final = struct.pack("ii", 1, 0)


def reset(transport: asyncio.Transport) -> None:
    """Close a connection at once, with all that its client has not read.

    Without this option the kernel would keep megabytes of answers for minutes, and go on offering
    them to a client that does not read; the client would not even learn that it was dropped.
    """
    own = transport.get_extra_info("socket")
    if own is not None:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _DROP_UNSENT)
    transport.abort()


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
            reset(self._transport)
            return
        self._unread = unread
        self._timer = self._wheel.after(self._seconds, self._look_again)
