"""Many slow, greedy or silent connections at once, each a few lines of asyncio."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any

from tests.integration.hostile.hostile_shot import Answer, read_answer
from tests.integration.hostile.hostile_traffic import Traffic

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_PIECE = 64 * 1024
_HANG_SECONDS = 30.0


class Ending:
    """How a connection ended: the answer if there was one, when, and what the other side took."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.seconds = 0.0
        self.bytes_taken = 0

    @property
    def status(self) -> int:
        return 0 if self.answer is None else self.answer.status


@contextlib.asynccontextmanager
async def connected(port: int, *, receive_bytes: int = 0) -> AsyncIterator[Pipe]:
    """A connection that is dropped at the end. `receive_bytes` bounds what the kernel takes in."""
    sock = socket.socket()
    sock.setblocking(False)
    if receive_bytes:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    # Small, so that what the kernel took from us is about what the other side took.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 128 * 1024)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=2**20)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def flood(port: int, start: bytes, piece: bytes, bytes_max: int) -> Ending:
    """Send `start`, then `piece` again and again, until the other side has had enough."""
    ending, began = Ending(), time.monotonic()
    pieces = piece * max(_PIECE // len(piece), 1)
    async with asyncio.timeout(_HANG_SECONDS), connected(port) as (reader, writer):
        writer.transport.set_write_buffer_limits(high=0)
        answer = asyncio.ensure_future(read_answer(reader))
        try:
            writer.write(start)
            await writer.drain()
            while ending.bytes_taken < bytes_max:
                writer.write(pieces)
                await writer.drain()
                ending.bytes_taken += len(pieces)
        except ConnectionError:
            pass
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            ending.answer = await answer
            await reader.read(-1)
    ending.seconds = time.monotonic() - began
    return ending


async def drip(port: int, start: bytes, drops: Iterable[bytes], pause: float) -> Ending:
    """Send `start`, then a drop now and then; read until the other side closes."""
    ending, began = Ending(), time.monotonic()
    async with asyncio.timeout(_HANG_SECONDS), connected(port) as (reader, writer):
        reading = asyncio.ensure_future(_read_to_the_end(reader, ending))
        writer.write(start)
        with contextlib.suppress(ConnectionError):
            for drop in drops:
                await asyncio.sleep(pause)
                if reading.done() or writer.transport.is_closing():
                    break
                writer.write(drop)
                ending.bytes_taken += len(drop)
        await reading
    ending.seconds = time.monotonic() - began
    return ending


async def _read_to_the_end(reader: asyncio.StreamReader, ending: Ending) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        ending.answer = await read_answer(reader)
        await reader.read(-1)


def all_of(
    traffic: Traffic, count: int, one: Callable[[int], Coroutine[Any, Any, Ending]]
) -> list[Ending]:
    """So many at the same time; each is given its number."""

    async def together() -> list[Ending]:
        return list(await asyncio.gather(*(one(number) for number in range(count))))

    return traffic.run(together())
