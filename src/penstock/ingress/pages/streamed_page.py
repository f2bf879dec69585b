"""Streams server-sent events from a page until they end or the client leaves."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from penstock.errors import Error

HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    # Proxies that buffer an answer would hold events back.
    (b"x-accel-buffering", b"no"),
]


class StreamedPage(Response):
    """Sends what a generator yields. Its first piece comes before the head: it may be refused."""

    def __init__(self, events: AsyncGenerator[bytes]) -> None:
        super().__init__()
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with aclosing(self._events):
            first = await anext(self._events)
            await send({"type": "http.response.start", "status": 200, "headers": list(HEADERS)})
            await until_gone(self._send(first, send), receive)
        await send({"type": "http.response.body", "body": b""})

    async def _send(self, first: bytes, send: Send) -> None:
        await send({"type": "http.response.body", "body": first, "more_body": True})
        # A stream that cannot go on here is cut; its client resumes elsewhere.
        with suppress(Error):
            async for piece in self._events:
                await send({"type": "http.response.body", "body": piece, "more_body": True})


async def until_gone(writing: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run `writing` until it ends or the client leaves."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(writing), group.create_task(_gone(receive))]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
