"""A webhook receiver that remembers which events came under which ids, and sometimes says no."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import msgspec

_HEAD_BYTES_MAX = 65_536
_REFUSED_SHARE = 0.05
_OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_FAILED = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Receiver:
    """`ids` are those under which each (type, subject) came; `taken` is what we agreed to."""

    def __init__(self, source: random.Random) -> None:
        self._source = source
        self.port = 0
        self.received = 0
        self.refused = 0
        self.ids: dict[tuple[str, str], set[str]] = defaultdict(set)
        self.taken: set[tuple[str, str]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/events"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Self]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_HEAD_BYTES_MAX)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            headers = _headers(await reader.readuntil(b"\r\n\r\n"))
            body = await reader.readexactly(int(headers["content-length"]))
            # Refused at random: the same event must then come again, under the same id.
            is_taken = self._source.random() >= _REFUSED_SHARE
            event = _named(msgspec.json.decode(body))
            self.ids[event].add(headers["webhook-id"])
            if is_taken:
                self.taken.add(event)
            self.received += is_taken
            self.refused += not is_taken
            writer.write(_OK if is_taken else _FAILED)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            # The sender was killed in the middle; it will come again.
            pass
        finally:
            writer.close()


def _named(event: dict[str, Any]) -> tuple[str, str]:
    """What happened to whom, in either of the two shapes."""
    payload = event.get("payload") or event["data"]
    return event["type"], payload.get("requestId") or payload["id"]


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    pairs = (line.split(":", 1) for line in lines if line)
    return {name.strip().lower(): value.strip() for name, value in pairs}
