"""An engine in a few lines, inside the test's own loop: each test says how it answers."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Self

Answer = Callable[["Call"], Awaitable[None]]

STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class Call:
    """One request as the engine got it, and the way to answer it."""

    def __init__(self, engine: "TinyEngine", number: int, head: bytes, body: bytes) -> None:
        self.engine = engine
        self.connection = number
        self.head = head
        self.body = body
        self.writer = engine.writers[number]
        self.reader = engine.readers[number]

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bytes, *, status: int = 200, headers: bytes = b"") -> None:
        """A whole answer with its length."""
        await self.send(
            b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\n%scontent-length: %d\r\n\r\n%s"
            % (status, headers, len(body), body)
        )

    async def begin_stream(self) -> None:
        await self.send(STREAM_HEAD)

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%s\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        await self.send(b"0\r\n\r\n")

    def close(self) -> None:
        self.writer.close()

    async def wait_until_dropped(self) -> None:
        """Wait until the other side has gone."""
        with contextlib.suppress(ConnectionError):
            while await self.reader.read(65536):
                continue
        self.engine.dropped += 1


class TinyEngine:
    """`answers` are used in turn, the last one for all that follow."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.calls: list[Call] = []
        self.writers: list[asyncio.StreamWriter] = []
        self.readers: list[asyncio.StreamReader] = []
        self.dropped = 0
        self._closed = 0
        self._server: asyncio.Server | None = None
        self._scheme = "http"

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"{self._scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def accepted(self) -> int:
        return len(self.writers)

    async def start(self, tls: ssl.SSLContext | None = None) -> Self:
        self._scheme = "https" if tls else "http"
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        return self

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self.writers:
            writer.transport.abort()
        await until(lambda: self._closed == len(self.writers))

    def close_connections(self) -> None:
        for writer in self.writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.writers)
        self.writers.append(writer)
        self.readers.append(reader)
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.readexactly(_length(head))
                call = Call(self, number, head, body)
                self.calls.append(call)
                index = min(len(self.calls), len(self.answers)) - 1
                await self.answers[index](call)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self._closed += 1


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


async def until(is_so: Callable[[], bool], *, seconds: float = 5.0) -> None:
    """Let the loop run until something is so; fail when it does not become so."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds
    while not is_so():
        assert loop.time() < ends, "it did not happen"
        await asyncio.sleep(0.001)


async def let_the_loop_run() -> None:
    """Long enough for bytes on the loopback to arrive, to show that nothing comes of them."""
    await asyncio.sleep(0.02)
