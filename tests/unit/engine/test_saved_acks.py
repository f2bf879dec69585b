"""What a stream's connection tells the kernel about acknowledgements."""

import asyncio
import socket

import pytest
import uvloop

from penstock.engine.connection import Connection, IdleCallback, Receiver
from penstock.errors import Error

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux only")

_HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
_CHUNK = b"14\r\n" + b"." * 20 + b"\r\n"


class _Collected(Receiver):
    def __init__(self) -> None:
        self.has_come = asyncio.Event()

    def on_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None: ...

    def on_body(self, data: bytes) -> None:
        self.has_come.set()

    def on_read_end(self) -> None: ...

    def on_complete(self) -> None: ...

    def on_lost(self, error: Error, *, answered: bool) -> None: ...


class _Nobody(IdleCallback):
    def idle(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...


async def _told(chunks: int) -> list[int]:
    """Whether packets are acknowledged at once: before a stream's first chunk, and after each."""
    connected: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_server(
        lambda _reader, writer: connected.put_nowait(writer), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    loop = asyncio.get_running_loop()
    transport, connection = await loop.create_connection(
        lambda: Connection(_Nobody()), "127.0.0.1", port
    )
    end, collected = transport.get_extra_info("socket"), _Collected()
    connection.send([b"GET / HTTP/1.1\r\n\r\n"], collected)
    writer = await connected.get()
    writer.write(_HEAD)
    found = list[int]()
    for count in range(chunks + 1):
        # A delayed acknowledgement, and with it the kernel's own change of mind, takes 40 ms.
        await asyncio.sleep(0.06)
        if count:
            collected.has_come.clear()
            writer.write(_CHUNK)
            await collected.has_come.wait()
        found.append(end.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK))
    transport.abort()
    writer.close()
    server.close()
    return found


def test_a_streams_packets_are_not_each_acknowledged_at_once() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        before, after = runner.run(_told(1))
    assert before == 1, "what Linux does by itself, or this test shows nothing"
    assert after == 0
