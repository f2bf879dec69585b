"""A receiver of webhooks on 127.0.0.1 that answers as it is told and keeps what it got."""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import AsyncIterator

import msgspec

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


class Received(msgspec.Struct, frozen=True):
    """One request."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]


class Receiver:
    """`answers` are given in order, then 200; None holds the request for ever."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.answers: deque[bytes | None] = deque()
        self.port = 0
        self._came = asyncio.Condition()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?a=b"

    async def wait_for(self, count: int, seconds: float = 20.0) -> list[Received]:
        async with asyncio.timeout(seconds), self._came:
            await self._came.wait_for(lambda: len(self.received) >= count)
        return self.received

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers["content-length"]))
            async with self._came:
                self.received.append(Received(head[0], headers, body))
                self._came.notify_all()
            answer = self.answers.popleft() if self.answers else OK
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


def status(code: int, *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {code} X", "content-length: 5", *headers, "", "never"]
    return "\r\n".join(lines).encode()


@contextlib.asynccontextmanager
async def receiving(tls: ssl.SSLContext | None = None) -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    async with server:
        yield receiver
