"""Requests to all models of a fleet in chaos, and whether each answer is in the ledger."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Collection

import httpx
from tests.chaos.fleet_cell import MODELS, FleetCell

from penstock.store import Store

_AT_ONCE = 12
_PAUSE_SECONDS = 0.2
_SECONDS_MAX = 30.0
_LEDGER_SECONDS = 30.0


class FleetLoad:
    """Sends short chats, each to the next model."""

    def __init__(self, cell: FleetCell) -> None:
        self._url = f"{cell.gateway.url}/v1/chat/completions"
        headers = {"authorization": f"Bearer {cell.key}"}
        self._client = httpx.AsyncClient(headers=headers, timeout=_SECONDS_MAX, trust_env=False)
        self._models = itertools.cycle(MODELS)
        self._is_over = False
        self._served: set[str] = set()
        self.statuses: Counter[int] = Counter()
        # Requests that got no answer at all.
        self.unanswered = 0

    @property
    def answered(self) -> int:
        return self.statuses.total()

    def stop(self) -> None:
        self._is_over = True

    async def close(self) -> None:
        await self._client.aclose()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(_AT_ONCE):
                group.create_task(self._send())

    async def _send(self) -> None:
        while not self._is_over:
            message = {"role": "user", "content": "hello"}
            body = {"model": next(self._models), "messages": [message], "max_tokens": 4}
            try:
                answer = await self._client.post(self._url, json=body)
            except httpx.HTTPError as failure:
                print(f"no answer: {failure!r}", flush=True)
                self.unanswered += 1
                continue
            self.statuses[answer.status_code] += 1
            if answer.status_code == 200:
                self._served.add(answer.headers["x-request-id"])
            await asyncio.sleep(_PAUSE_SECONDS)

    async def missing(self, store: Store) -> int:
        return await missing_in_ledger(store, self._served)


async def missing_in_ledger(store: Store, requests: Collection[str]) -> int:
    """How many answered requests are not in the ledger, once its journals are drained."""
    left = set(requests)
    for _ in range(int(_LEDGER_SECONDS)):
        async with store.transaction() as tx:
            rows = await tx.fetch(
                "select request::text from usage_attempts where outcome = 'ok'"
                " and request = any(%s::uuid[])",
                (list(left),),
            )
        left -= {row[0] for row in rows}
        if not left:
            return 0
        await asyncio.sleep(1)
    return len(left)
