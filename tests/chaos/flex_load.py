"""Clients that submit until they are told that it was accepted, through whichever gateway lives."""

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Sequence

import httpx
import msgspec
from tests.chaos.flex_cell import MODEL, Customer, FlexCell
from tests.chaos.flex_plan import BURST_SECONDS, Door, Parcel

_CALL_SECONDS = 15.0
_PAUSE_SECONDS = 0.2, 1.0
_IN_FLIGHT_MAX = 32

Send = Callable[[str], Awaitable[httpx.Response]]


class Accepted(msgspec.Struct, frozen=True):
    """A parcel that a gateway has taken, and the id it gave."""

    parcel: Parcel
    id: str


class RefusedError(Exception):
    """A gateway said something that no retry will change."""


class Load:
    """`accepted` grows while it runs; `retries` counts answers that did not come or said no."""

    def __init__(self, cell: FlexCell, source: random.Random) -> None:
        self._cell = cell
        self._source = source
        self._slots = asyncio.Semaphore(_IN_FLIGHT_MAX)
        self._client = httpx.AsyncClient(timeout=_CALL_SECONDS, trust_env=False)
        self.accepted: list[Accepted] = []
        self.retries = 0
        # Parcels that were given two ids, though their key was the same.
        self.two_ids: list[Parcel] = []

    async def run(self, parcels: Sequence[Parcel], seconds: float) -> None:
        """Submit all of them in bursts, spread over the time."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for parcel in parcels:
                due = seconds * parcel.number / len(parcels)
                due -= due % BURST_SECONDS
                await asyncio.sleep(max(0.0, began + due - time.monotonic()))
                await self._slots.acquire()
                group.create_task(self._deliver(parcel))

    async def close(self) -> None:
        await self._client.aclose()

    async def call(self, send: Send) -> httpx.Response:
        """Ask one gateway after the other until one of them agrees."""
        first = self._source.randrange(2)
        for turn in itertools.count(first):
            gateway = self._cell.gateways[turn % len(self._cell.gateways)]
            try:
                answer = await send(gateway.url)
            except httpx.TransportError:
                pass
            else:
                if answer.is_success:
                    return answer
                if answer.status_code < 500 and answer.status_code not in {408, 429}:
                    raise RefusedError(f"{answer.status_code} {answer.text[:500]}")
            self.retries += 1
            await asyncio.sleep(self._source.uniform(*_PAUSE_SECONDS))
        raise AssertionError("there is always another turn")

    def post(self, customer: Customer, path: str, body: object, **headers: str) -> Send:
        """A request that can be sent to any gateway, any number of times."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["authorization"] = f"Bearer {customer.key}"
        return lambda url: self._client.post(url + path, json=body, headers=named)

    def get(self, customer: Customer, path: str) -> Send:
        headers = {"authorization": f"Bearer {customer.key}"}
        return lambda url: self._client.get(url + path, headers=headers)

    async def _deliver(self, parcel: Parcel) -> None:
        try:
            given = await self._submit(parcel)
            self.accepted.append(Accepted(parcel, given))
            if parcel.is_repeated and await self._submit(parcel) != given:
                self.two_ids.append(parcel)
        finally:
            self._slots.release()

    async def _submit(self, parcel: Parcel) -> str:
        customer = self._cell.customers[parcel.customer]
        match parcel.door:
            case Door.WORKERS_AI:
                return await self._submit_workers_ai(parcel, customer)
            case Door.BATCHES:
                return await self._submit_batch(parcel, customer)
            case Door.SINGLE:
                return await self._submit_single(parcel, customer)

    async def _submit_workers_ai(self, parcel: Parcel, customer: Customer) -> str:
        requests = [
            {**parcel.chat(item), "external_reference": str(item)}
            for item in range(len(parcel.prompts))
        ]
        path = f"/client/v4/accounts/{customer.account}/ai/run/{MODEL}?queueRequest=true"
        send = self.post(customer, path, {"requests": requests}, idempotency_key=parcel.key)
        answer = await self.call(send)
        return str(answer.json()["result"]["request_id"])

    async def _submit_batch(self, parcel: Parcel, customer: Customer) -> str:
        headers = {"authorization": f"Bearer {customer.key}"}

        def upload(url: str) -> Awaitable[httpx.Response]:
            files = {"file": ("parcel.jsonl", parcel.lines())}
            return self._client.post(
                url + "/v1/files", data={"purpose": "batch"}, files=files, headers=headers
            )

        file = (await self.call(upload)).json()["id"]
        body = {
            "input_file_id": file,
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
        }
        send = self.post(customer, "/v1/batches", body, idempotency_key=parcel.key)
        return str((await self.call(send)).json()["id"])

    async def _submit_single(self, parcel: Parcel, customer: Customer) -> str:
        send = self.post(
            customer,
            "/v1/chat/completions",
            {"model": MODEL, **parcel.chat(0)},
            idempotency_key=parcel.key,
            prefer="respond-async, wait=0",
        )
        answer = await self.call(send)
        location = answer.headers.get("location")
        if location is None:
            # It was submitted by an earlier try, and its answer is there by now.
            return str(answer.json()["id"]).removeprefix("chatcmpl-")
        return str(location).rsplit("/", 1)[1]
