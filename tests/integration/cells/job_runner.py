"""Runs a cell's jobs as a keeper would, but simply: claim, ask the engine, finish. In a thread."""

import asyncio
import json
import threading
from types import TracebackType
from typing import Any, Self

import httpx
from tests.integration.cells.gateway_cell import CHAT, NATIVE, SERVED, THINKER, Cell

from penstock.app.job_rooms import session_books
from penstock.clock import SystemClock
from penstock.config import Config
from penstock.queue import Claim, Queue, QueueSettings
from penstock.records.job import ClaimedJob, Door, JobEnd, JobFailure, JobId
from penstock.records.model import ModelId
from penstock.records.price import Price, cost_nanousd
from penstock.records.usage import Usage
from penstock.store import Store, StoreSettings
from penstock.store.kept_values import KeptValues
from penstock.turns import BackgroundResponses, PreparedEnding

_MODELS = (CHAT, NATIVE, THINKER)
_POLL_SECONDS = 0.02
_LEASE_SECONDS = 60.0


class JobRunner:
    """While `hold()` is in force nothing is claimed, so that jobs stay queued."""

    def __init__(self, cell: Cell, engine_url: str) -> None:
        self._cell = cell
        self._engine_url = engine_url
        self._held = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self.ran: list[str] = []
        # Of an earlier release, which ends jobs and knows nothing of responses.
        self.is_old = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def stop_and_start(self) -> None:
        """Begin anew, with new connections."""
        self._stopping.set()
        self._thread.join()
        self._stopping.clear()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()

    def hold(self) -> None:
        self._held.set()

    def go_on(self) -> None:
        self._held.clear()

    async def _run(self) -> None:
        store = Store(StoreSettings(dsn=self._cell.dsn))
        await store.open()
        values = await self._cell.open_values(store)
        try:
            async with httpx.AsyncClient(timeout=30, trust_env=False) as client:
                while not self._stopping.is_set():
                    if not self._held.is_set():
                        await self._round(store, values, client)
                    await asyncio.sleep(_POLL_SECONDS)
        finally:
            await store.close()

    async def _round(self, store: Store, values: KeptValues, client: httpx.AsyncClient) -> None:
        queue = Queue(QueueSettings())
        responses = BackgroundResponses(
            session_books(store, values, Config(), SystemClock()), SystemClock()
        )
        for model in _MODELS:
            want = Claim(ModelId(model), 10, "test", _LEASE_SECONDS)
            async with store.transaction() as transaction:
                jobs = await queue.claim(transaction, want)
            for job in jobs:
                payload = await values.get(job.account, job.id, job.payload_object, job.payload)
                end = await self._end(job, payload, values, client)
                endings = await self._endings(responses, job, end, values)
                async with store.transaction() as transaction:
                    finished = await queue.finish(transaction, [end])
                    if not self.is_old:
                        await responses.ended(transaction, finished.ended, endings)
                self.ran.append(job.id)

    async def _endings(
        self,
        responses: BackgroundResponses,
        job: ClaimedJob,
        end: JobEnd,
        values: KeptValues,
    ) -> dict[JobId, PreparedEnding]:
        if job.door is not Door.RESPONSES or end.failure is not None:
            return {}
        result = await values.get(job.account, job.id, end.result_object, end.result)
        prepared = await responses.prepare(job, result)
        return {} if prepared is None else {job.id: prepared}

    async def _end(
        self, job: ClaimedJob, payload: bytes, values: KeptValues, client: httpx.AsyncClient
    ) -> JobEnd:
        fields: dict[str, Any] = json.loads(payload)
        for name in ("service_tier", "prompt_cache_key", "metadata"):
            fields.pop(name, None)
        fields["model"] = SERVED
        answer = await client.post(f"{self._engine_url}/v1/chat/completions", json=fields)
        if answer.status_code != 200:
            message = answer.json()["error"]["message"]
            return JobEnd(job.id, job.epoch, failure=JobFailure("engine_failed", message, 502))
        result = answer.content
        if job.model == THINKER:
            result = result.replace(b'"reasoning":', b'"reasoning_content":')
        told = answer.json()["usage"]
        usage = Usage(told["prompt_tokens"], told["completion_tokens"])
        [kept] = await values.keep([(job.account, job.id, result)])
        await values.put([kept])
        return JobEnd(
            job.id,
            job.epoch,
            result=kept.inline,
            result_object=kept.name,
            usage=usage,
            charge_nanousd=cost_nanousd(usage, Price(*job.ticket.price)),
            replica="test",
        )
