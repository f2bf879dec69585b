"""Clients with open streams and others that come and go, in a process of their own.

`python -m tests.integration.fleet.streaming_crowd URL KEY MODEL` prints a line once all streams are
open, runs until its standard input is closed, and prints what became of them as JSON.
"""

import asyncio
import itertools
import sys
import time
from collections import Counter

import httpx
import msgspec

STREAMS = 200
PER_SECOND = 50
# Six seconds: every drain meets streams that have just begun.
_LONG = '@script {"tokens": 12, "interval": 0.5}'


class CrowdReport(msgspec.Struct):
    """What the clients saw."""

    whole: int
    dropped: list[str]
    statuses: dict[str, int]


class Crowd:
    """Clients with open streams, and others that come and go."""

    def __init__(self, url: str, key: str, model: str) -> None:
        self._model = model
        self._url = f"{url}/v1/chat/completions"
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        headers = {"authorization": f"Bearer {key}"}
        self._client = httpx.AsyncClient(
            headers=headers, timeout=60, trust_env=False, limits=limits
        )
        self._numbers = itertools.count()
        self.is_over = False
        self.whole = 0
        self.dropped: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.open = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(STREAMS):
                group.create_task(self._stream())
            group.create_task(self._ask())
        await self._client.aclose()

    async def _stream(self) -> None:
        while not self.is_over:
            body = self._body(_LONG) | {"stream": True}
            last = error = ""
            try:
                async with self._client.stream("POST", self._url, json=body) as answer:
                    self.statuses[answer.status_code] += 1
                    self.open += 1
                    try:
                        async for line in answer.aiter_lines():
                            last = line or last
                            # A stream that breaks says why, and then ends as others do.
                            if line.startswith('data: {"error"'):
                                error = line
                    finally:
                        self.open -= 1
            except httpx.HTTPError as failure:
                last = repr(failure)
            if last == "data: [DONE]" and not error:
                self.whole += 1
            else:
                self.dropped.append(error or last)

    async def _ask(self) -> None:
        async with asyncio.TaskGroup() as group:
            began = time.monotonic()
            for number in itertools.count():
                if self.is_over:
                    return
                await asyncio.sleep(max(0.0, began + number / PER_SECOND - time.monotonic()))
                group.create_task(self._ask_once())

    async def _ask_once(self) -> None:
        answer = await self._client.post(self._url, json=self._body("hello"))
        self.statuses[answer.status_code] += 1

    def _body(self, text: str) -> dict[str, object]:
        first = {"role": "system", "content": f"client {next(self._numbers)}"}
        return {"model": self._model, "messages": [first, {"role": "user", "content": text}]}


async def _run(url: str, key: str, model: str) -> None:
    crowd = Crowd(url, key, model)
    running = asyncio.ensure_future(crowd.run())
    while crowd.open < STREAMS:
        assert not crowd.dropped, crowd.dropped[:3]
        await asyncio.sleep(0.05)
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    crowd.is_over = True
    await running
    statuses = {str(status): count for status, count in crowd.statuses.items()}
    report = CrowdReport(crowd.whole, crowd.dropped, statuses)
    print(msgspec.json.encode(report).decode(), flush=True)


if __name__ == "__main__":
    asyncio.run(_run(*sys.argv[1:4]))
