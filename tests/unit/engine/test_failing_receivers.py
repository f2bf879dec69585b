"""One connection to an engine: whoever waits for an answer is told, even when it fails itself."""

import asyncio

import pytest
import uvloop
from tests.unit.engine.engine_line import HEAD_BYTES_MAX

from penstock.engine.answer_framing import Receiver
from penstock.engine.connection import Connection, IdleCallback
from penstock.errors import EngineFailed, Error

_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


class _Pool(IdleCallback):
    def opened(self) -> None: ...

    def idle(self, connection: Connection) -> None:
        raise AssertionError("a connection with a failed receiver is not for others")

    def closed(self, connection: Connection) -> None: ...


class _Failing(Receiver):
    """A receiver with a bug in one of its callbacks."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.lost: asyncio.Future[Error] = asyncio.get_running_loop().create_future()

    def _reach(self, name: str) -> None:
        if name == self._where:
            raise ZeroDivisionError

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        del status, headers
        self._reach("on_head")

    def on_body(self, data: bytes) -> None:
        del data
        self._reach("on_body")

    def on_read_end(self) -> None: ...

    def on_complete(self) -> None:
        self._reach("on_complete")

    def on_lost(self, error: Error, *, answered: bool) -> None:
        assert answered
        if not self.lost.done():
            self.lost.set_result(error)


@pytest.mark.parametrize("where", ["on_head", "on_body", "on_complete"])
def test_a_receiver_that_fails_is_told_that_its_answer_is_lost(where: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_ANSWER)
        await writer.drain()
        await reader.read()
        writer.close()

    async def ask() -> Error:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(_Pool(), HEAD_BYTES_MAX), "127.0.0.1", port
        )
        receiver = _Failing(where)
        connection.send([b"GET / HTTP/1.1\r\n\r\n"], receiver)
        async with asyncio.timeout(5):
            error = await receiver.lost
        server.close()
        await server.wait_closed()
        return error

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert isinstance(runner.run(ask()), EngineFailed)
