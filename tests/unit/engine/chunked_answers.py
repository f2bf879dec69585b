"""A connection that asked for an answer, and the chunks that it is fed."""

import itertools
from typing import TYPE_CHECKING, cast

from tests.unit.engine.connection_doubles import CountingPool, DroppableTransport
from tests.unit.engine.engine_line import HEAD_BYTES_MAX

from penstock.engine.answer_framing import Receiver
from penstock.engine.connection import Connection
from penstock.errors import Error

if TYPE_CHECKING:
    import asyncio


class _Receiver(Receiver):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.status = 0
        self.body = b""
        self.reads = 0
        self.is_complete = False
        self.error: Error | None = None

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.status = status

    def on_body(self, data: bytes) -> None:
        assert not self.is_complete
        self.body += data

    def on_read_end(self) -> None:
        self.reads += 1

    def on_complete(self) -> None:
        self.is_complete = True

    def on_lost(self, error: Error, *, answered: bool) -> None:
        assert answered
        self.error = error


class Asked:
    """A connection on which one request was sent."""

    def __init__(self) -> None:
        self.pool = CountingPool()
        self.transport = DroppableTransport()
        self.connection = Connection(self.pool, HEAD_BYTES_MAX)
        self.connection.connection_made(cast("asyncio.BaseTransport", self.transport))
        self.ask()

    def ask(self) -> None:
        self.receiver = _Receiver()
        self.connection.send([b"GET / HTTP/1.1\r\n\r\n"], self.receiver)

    def hear(self, data: bytes, cuts: list[int]) -> None:
        places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
        for start, end in itertools.pairwise(places):
            self.connection.data_received(data[start:end])


def chunk(payload: bytes, *, extension: bytes = b"") -> bytes:
    return b"%x%s\r\n%s\r\n" % (len(payload), extension, payload)
