"""Bodies whose length is known, read past the parser; long ones straight to where they stay.

uvloop reads up to 256 KB into a buffer of its own and hands out a copy, of which the parser hands
out a copy, and parts are joined by another. That touches each byte of a long prompt four times, and
pushes all else out of the cache.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.ingress.exchange import Exchange
from penstock.ingress.unfilled import Unfilled

if TYPE_CHECKING:
    from penstock.ingress.client_protocol import ClientProtocol
    from penstock.ingress.hot import HotDoor

# Where this way begins to pay.
LONG_BYTES: Final = 64 * 1024
# For a head, and as little as possible of the body behind it, which has to be moved. One for all
# connections: what was read is taken out before anything else is read.
_HEAD_BYTES: Final = 16 * 1024
_HEAD: Final = memoryview(bytearray(_HEAD_BYTES))


class BodyReader(asyncio.BufferedProtocol):
    """Reads for a ClientProtocol, from the first long body on its connection.

    uvloop asks a protocol of this kind where to read to. All else is the client's as before.
    """

    __slots__ = ("_client", "_door", "_exchange", "_is_reading", "_length", "_target", "left")

    def __init__(self, client: "ClientProtocol", door: "HotDoor") -> None:
        self._client = client
        self._door = door
        self._exchange: Exchange | None = None
        self._is_reading = False
        self._length = 0
        self._target: Unfilled | None = None
        # Bytes still to come of a body that the parser does not see.
        self.left = 0

    def read_next(self) -> None:
        """From here on, read by this way."""
        if not self._is_reading:
            self._is_reading = True
            self._client.transport.set_protocol(self)

    def begin(self, exchange: Exchange, length: int) -> None:
        """Read the rest of this body, to its place if there is room for all that is announced."""
        self.left = length - exchange.body_bytes
        self._exchange, self._length = exchange, length
        if self.left < (_HEAD_BYTES if self._is_reading else LONG_BYTES):
            # In parts, of which there will be few.
            return
        if self._door.may_announce(length):
            try:
                target = Unfilled(length)
            except MemoryError:
                pass
            else:
                target.put(exchange.take_body())
                self._target = target
                self._door.announced_bytes += length
                self.read_next()
                return
        # In parts, then, and in uvloop's large ones.
        self._is_reading = False
        self._client.transport.set_protocol(self._client)

    def take(self, data: bytes) -> None:
        """A part of the body, and perhaps what follows it."""
        exchange = self._exchange
        if exchange is None or exchange.response_complete:
            # Refused: what still comes of it is not read.
            return
        part = data if len(data) <= self.left else data[: self.left]
        exchange.add_body(part)
        self._count(exchange, len(part))
        if len(data) > len(part) and not self._client.transport.is_closing():
            self._client.data_received(data[len(part) :])

    def drop(self) -> None:
        """It is whole, or nobody wants it any more."""
        self._exchange = None
        if self._target is not None:
            self._target = None
            self._door.announced_bytes -= self._length

    # asyncio.BufferedProtocol

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return _HEAD if self._target is None else self._target.rest()

    def buffer_updated(self, nbytes: int) -> None:
        target, exchange = self._target, self._exchange
        if target is None or exchange is None:
            self._client.data_received(bytes(_HEAD[:nbytes]))
            return
        target.filled += nbytes
        if nbytes == self.left:
            # It is taken in a later turn of the loop, when uvloop has given back its buffer.
            exchange.put_body(target.take())
        self._count(exchange, nbytes)

    def eof_received(self) -> None:
        self._client.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._client.connection_lost(exc)

    def pause_writing(self) -> None:
        self._client.pause_writing()

    def resume_writing(self) -> None:
        self._client.resume_writing()

    def _count(self, exchange: Exchange, count: int) -> None:
        self.left -= count
        if not self.left:
            self.drop()
        self._client.body_received(exchange, count, is_whole=not self.left)
