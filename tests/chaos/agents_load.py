"""Agents that ask for background responses, and readers that go on where they were cut off."""

import asyncio
import json
import random
from typing import Any

import httpx
import msgspec
from tests.chaos.agents_verdict import AgentFindings
from tests.chaos.flex_cell import MODEL, Customer, FlexCell

from penstock.clock import new_id

_PAUSE_SECONDS = 0.1
_TOKENS = 4, 16
_INTERVAL_SECONDS = 0.05
_END = "data: [DONE]"


class Asked(msgspec.Struct):
    """One response, and what its reader has of it."""

    customer: Customer
    id: str
    numbers: list[int] = []
    text: str = ""


class AgentLoad:
    """Each response is read as a stream, from any gateway that is up."""

    def __init__(self, cell: FlexCell, source: random.Random, findings: AgentFindings) -> None:
        self._cell = cell
        self._source = source
        self._findings = findings
        self._client = httpx.AsyncClient(timeout=httpx.Timeout(10, read=5), trust_env=False)
        self.asked: list[Asked] = []
        self.open: set[str] = set()

    async def run(self, count: int) -> None:
        """So many responses at once, each until its reader has its last event."""
        async with asyncio.TaskGroup() as group:
            for _ in range(count):
                group.create_task(self._one())

    async def check_texts(self) -> None:
        """What each reader has is what is stored."""
        for asked in self.asked:
            answer = await self._call("GET", f"/v1/responses/{asked.id}", asked.customer)
            response = answer.json()
            if response.get("status") != "completed":
                self._findings.note("lost", f"{asked.id}: {answer.status_code} {answer.text[:200]}")
                continue
            self._findings.responses += 1
            if _text_of(response) != asked.text:
                self._findings.note("gaps", f"{asked.id} was read otherwise than it is stored")
            if asked.numbers != list(range(len(asked.numbers))):
                self._findings.note("gaps", f"{asked.id}: {asked.numbers}")

    async def close(self) -> None:
        await self._client.aclose()

    async def _one(self) -> None:
        customer = self._source.choice(self._cell.customers)
        asked = Asked(customer, await self._submit(customer))
        self.asked.append(asked)
        self.open.add(asked.id)
        while not await self._read(asked):
            self._findings.resumed += 1
            await asyncio.sleep(_PAUSE_SECONDS)
        self.open.discard(asked.id)

    async def _submit(self, customer: Customer) -> str:
        tokens = self._source.randint(*_TOKENS)
        script = json.dumps({"tokens": tokens, "interval": _INTERVAL_SECONDS})
        body = {"model": MODEL, "input": f"hello {new_id()}\n@script {script}", "background": True}
        # The same at every try: a gateway may die before it has answered.
        headers = {"idempotency-key": new_id()}
        answer = await self._call("POST", "/v1/responses", customer, json=body, headers=headers)
        id: str = answer.json()["id"]
        return id

    async def _call(
        self, method: str, path: str, customer: Customer, **options: Any
    ) -> httpx.Response:
        """Ask any gateway until one answers."""
        headers = {"authorization": f"Bearer {customer.key}", **options.pop("headers", {})}
        while True:
            gateway = self._source.choice(self._cell.gateways)
            try:
                answer = await self._client.request(
                    method, gateway.url + path, headers=headers, **options
                )
                if answer.status_code < 500:
                    return answer
            except httpx.HTTPError:
                pass
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _read(self, asked: Asked) -> bool:
        """Read on after the last event; return whether the stream ended as it should."""
        gateway = self._source.choice(self._cell.gateways)
        query = {"stream": "true"}
        if asked.numbers:
            query["starting_after"] = str(asked.numbers[-1])
        headers = {"authorization": f"Bearer {asked.customer.key}"}
        url = f"{gateway.url}/v1/responses/{asked.id}"
        try:
            async with self._client.stream("GET", url, params=query, headers=headers) as answer:
                if answer.status_code != 200:
                    return False
                async for line in answer.aiter_lines():
                    if line == _END:
                        return True
                    if line.startswith("data: "):
                        _take(asked, json.loads(line[6:]))
        except httpx.HTTPError:
            pass
        return False


def _take(asked: Asked, event: dict[str, Any]) -> None:
    asked.numbers = [*asked.numbers, event["sequence_number"]]
    if event["type"] == "response.output_text.delta":
        asked.text += event["delta"]


def _text_of(response: dict[str, Any]) -> str:
    return "".join(
        part["text"]
        for item in response["output"]
        if item["type"] == "message"
        for part in item["content"]
    )
