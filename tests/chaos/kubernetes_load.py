"""Clients of a cell on a cluster: open streams, and short requests that come and go.

They go to the gateways that the Service `gateway` has at the moment, as its address would lead
them; a connection that nobody takes is tried again at the next one.
"""

import asyncio
import itertools
import time
from collections import Counter
from contextlib import aclosing

import httpx
import msgspec
from lightkube.config.kubeconfig import KubeConfig
from lightkube.core.async_client import AsyncClient
from lightkube.resources.core_v1 import Endpoints
from tests.chaos.kubernetes_cell import KubernetesCell

_STREAMS = 10
_AT_ONCE = 4
_PAUSE_SECONDS = 0.2
_LOOK_SECONDS = 0.3
_TRIES = 20
_PORT = 8787
_WHOLE = "whole"
# Ten seconds: every drain meets streams that have just begun.
_LONG = '@script {"tokens": 20, "interval": 0.5}'


class Failure(msgspec.Struct, frozen=True):
    """A request that was not answered, or whose stream did not reach its end."""

    began: float
    ended: float
    is_stream: bool
    # The answer's status, also of one that broke off; 0 where there was no answer.
    status: int
    # Who answered, where somebody had begun to.
    replica: str
    last: str


class ClusterLoad:
    """All clients; they run until `stop`."""

    def __init__(self, cell: KubernetesCell) -> None:
        self._config = KubeConfig.from_file(cell.cluster.plane.config_file)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        headers = {"authorization": f"Bearer {cell.key}"}
        self._client = httpx.AsyncClient(
            headers=headers, timeout=40, trust_env=False, limits=limits
        )
        self._numbers = itertools.count()
        self._gateways: list[str] = []
        self._is_over = False
        self.served: set[str] = set()
        self.statuses: Counter[int] = Counter()
        self.whole = 0
        self.all_open = asyncio.Event()
        self._open = 0
        # Streams that are open now, by replica.
        self.open_at: Counter[str] = Counter()
        self.failures: list[Failure] = []
        # How long each short request took, by when it began.
        self.waits: list[tuple[float, float]] = []

    def stop(self) -> None:
        self._is_over = True

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            looking = group.create_task(self._look())
            clients = [group.create_task(self._stream()) for _ in range(_STREAMS)]
            clients += [group.create_task(self._ask()) for _ in range(_AT_ONCE)]
            await asyncio.wait(clients)
            looking.cancel()
        await self._client.aclose()

    async def _look(self) -> None:
        """What a Service's address would do: who is ready gets new connections."""
        client = AsyncClient(config=self._config, namespace="penstock", trust_env=False)
        while True:
            # While the API server is away, a node goes on with what it knows.
            try:
                found = await client.get(Endpoints, "gateway")
                groups = found.subsets or []
                self._gateways = [each.ip for one in groups for each in one.addresses or []]
            except Exception:  # noqa: BLE001 - whatever keeps it from answering
                await asyncio.sleep(_LOOK_SECONDS)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _ask(self) -> None:
        while not self._is_over:
            await self._send("hello", is_stream=False)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _stream(self) -> None:
        while not self._is_over:
            await self._send(_LONG, is_stream=True)

    async def _send(self, text: str, *, is_stream: bool) -> None:
        began = time.monotonic()
        number = next(self._numbers)
        messages = [
            {"role": "system", "content": f"client {number}"},
            {"role": "user", "content": text},
        ]
        body = {"model": "tiny", "messages": messages, "stream": is_stream}
        status, replica, last = 0, "", ""
        try:
            async with aclosing(await self._connected(body, number)) as answer:
                status = answer.status_code
                replica = answer.headers.get("x-penstock-replica", "")
                self._open += is_stream
                self.open_at[replica] += is_stream
                if self._open == _STREAMS:
                    self.all_open.set()
                try:
                    last = await _read(answer, is_stream=is_stream)
                finally:
                    self._open -= is_stream
                    self.open_at[replica] -= is_stream
                self.statuses[status] += 1
                if status == 200 and last == _WHOLE:
                    self.served.add(answer.headers["x-request-id"])
        except httpx.HTTPError as failure:
            last = repr(failure)
            self.statuses[status] += 1
        ended = time.monotonic()
        if not is_stream:
            self.waits.append((began, ended - began))
        is_whole = status == 200 and last == _WHOLE
        self.whole += is_stream and is_whole
        if not is_whole:
            self.failures.append(Failure(began, ended, is_stream, status, replica, last[:200]))

    async def _connected(self, body: dict[str, object], number: int) -> httpx.Response:
        for attempt in range(_TRIES):
            if not self._gateways:
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            gateway = self._gateways[(number + attempt) % len(self._gateways)]
            url = f"http://{gateway}:{_PORT}/v1/chat/completions"
            request = self._client.build_request("POST", url, json=body)
            try:
                return await self._client.send(request, stream=True)
            except httpx.ConnectError:
                await asyncio.sleep(_LOOK_SECONDS)
        raise httpx.ConnectError("no gateway takes connections")


async def _read(answer: httpx.Response, *, is_stream: bool) -> str:
    """Return `_WHOLE`, or what shows that the answer is not."""
    last = error = ""
    async for line in answer.aiter_lines():
        last = line or last
        # A stream that breaks says why, and then ends as others do.
        if line.startswith('data: {"error"'):
            error = line
    if error or (is_stream and last != "data: [DONE]"):
        return error or last
    return _WHOLE
