"""A deployment that sleeps: requests wake it, wait for it, and are answered."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import httpx
from tests.integration.fleet.deployed_cell import MODEL, deployed_cell, gateway_of, until_so

from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Role
from penstock.store import Store

REQUESTS = 100
BEYOND = 5
START_SECONDS = 3.0
# Beyond the engine's start: control looks, the keeper reads and reports, gateways read.
SLACK_SECONDS = 2.0


class Answered(NamedTuple):
    """What one client saw. `first` is seconds until its first token."""

    status: int
    first: float
    retry_after: str


async def test_requests_wake_a_deployment_at_zero(
    busy_store: Store, dsn: str, hosts_folder: Path
) -> None:
    account = await AccountBook(busy_store).create("waiters")
    _, key = await KeyBook(busy_store).create(Role.RUNTIME, account.id, "waiters")
    gateway = gateway_of(dsn, hosts_folder, **{"admission.wake_waiting_max": REQUESTS})
    # As often as in a cell, for the times that are measured.
    async with deployed_cell(busy_store, hosts_folder, hosts=1, heartbeat_seconds=1.0) as cell:
        cell.look_seconds = 0.5
        await cell.apply(
            replicas={"min": 0, "max": 2},
            arguments=["--start-seconds", str(START_SECONDS)],
            scale={"idle_to_zero_minutes": 0.05},
        )
        await cell.settled(1)
        await cell.settled(0)
        shown = await cell.shown()
        assert (shown.target, shown.target_reason) == (0, "no request for 0.05 minutes")
        await asyncio.to_thread(gateway.start)
        try:
            answers = await _ask(gateway.url, key, REQUESTS + BEYOND)
            statuses = Counter(answer.status for answer in answers)
            assert statuses == {200: REQUESTS, 503: BEYOND}
            # What the start before this one took.
            told = {answer.retry_after for answer in answers if answer.status == 503}
            assert told <= {"3", "4", "5"}, told
            assert "requests wait: " in (await cell.shown()).target_reason
            took = await _start_seconds(busy_store)
            latest = max(answer.first for answer in answers if answer.status == 200)
            assert latest <= took + SLACK_SECONDS, (latest, took)
            # Nobody asks any more.
            await until_so(lambda: _is_at(cell.ready, 0), seconds=60)
        finally:
            await asyncio.to_thread(gateway.stop)


async def _is_at(ready: object, count: int) -> bool:
    assert callable(ready)
    return len(ready()) == count


async def _ask(url: str, key: str, count: int) -> list[Answered]:
    limits = httpx.Limits(max_connections=None)
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(
        headers=headers, timeout=60, trust_env=False, limits=limits
    ) as client:
        return await asyncio.gather(*(_ask_once(client, url, n) for n in range(count)))


async def _ask_once(client: httpx.AsyncClient, url: str, number: int) -> Answered:
    """A stream for every other one."""
    message = {"role": "user", "content": f"Hello {number}"}
    body = {"model": MODEL, "messages": [message], "stream": number % 2 == 0, "max_tokens": 4}
    began = time.monotonic()
    first = 0.0
    async with client.stream("POST", f"{url}/v1/chat/completions", json=body) as answer:
        async for line in answer.aiter_lines():
            if not first and line and not line.startswith(":"):
                first = time.monotonic() - began
    return Answered(answer.status_code, first, answer.headers.get("retry-after", ""))


async def _start_seconds(store: Store) -> float:
    """How long the last replica took from its start until it served."""
    async with store.statement() as statement:
        row = await statement.fetch_one(
            "select extract(epoch from ready_at - started_at)::float8 from replicas"
            " where ready_at is not null order by ready_at desc limit 1"
        )
    assert row is not None
    return float(row[0])
