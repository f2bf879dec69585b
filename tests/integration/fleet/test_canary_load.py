"""Canaries under load, end to end: by the ledger, a worse one is halted and the old ones serve."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.integration.fleet.deployed_cell import (
    MODEL,
    DeployedCell,
    deployed_cell,
    gateway_of,
    until_so,
)

from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Role
from penstock.store import Store

REPLICAS = 3
CLIENTS = 3
# New prompts of so many words take the old engines about 40 ms to read.
WORDS = 120
RATE = 3000
_OLD = ("--prefill-rate", str(RATE))
_SLOW = ("--prefill-rate", str(RATE / 1.5))
_FAILING = (*_OLD, "--fail-every", "20")


@pytest.mark.parametrize(
    ("worse", "said"), [(_SLOW, "first token"), (_FAILING, "of requests failed")]
)
async def test_a_worse_canary_is_halted_and_the_old_replicas_stay(
    busy_store: Store, dsn: str, hosts_folder: Path, worse: tuple[str, ...], said: str
) -> None:
    account = await AccountBook(busy_store).create("callers")
    _, key = await KeyBook(busy_store).create(Role.RUNTIME, account.id, "callers")
    replicas = {"min": REPLICAS, "max": REPLICAS}
    rules = {"canary": 1, "canary_minutes": 2}
    async with deployed_cell(busy_store, hosts_folder, hosts=2) as cell:
        await cell.apply(replicas=replicas, arguments=_OLD)
        await cell.settled(REPLICAS)
        old = {replica.id for replica in cell.ready()}
        gateway = gateway_of(dsn, hosts_folder)
        await asyncio.to_thread(gateway.start)
        try:
            async with _callers(gateway.url, key):
                await cell.apply(replicas=replicas, arguments=worse, rollout=rules)
                await _until_stage(cell, "comparing")
                shown = await cell.shown()
                assert "at least 200" in shown.reason or not shown.reason
                # Control dies here, and the next one knows what is in the rows alone.
                cell.replace_control()
                await _until_stage(cell, "halted")
            halted = await cell.shown()
            assert halted.reason.startswith("the canary is worse: ")
            assert said in halted.reason
            await until_so(lambda: _is_whole(cell))
            # One old replica made room for the canary; the others have never stopped.
            assert len(old & {replica.id for replica in cell.ready()}) >= REPLICAS - 1
            assert (await cell.shown()).stage == "halted"
        finally:
            await asyncio.to_thread(gateway.stop)


async def _is_whole(cell: DeployedCell) -> bool:
    shown = await cell.shown()
    return (shown.ready, shown.placed, len(cell.ready())) == (REPLICAS,) * 3


async def _until_stage(cell: DeployedCell, stage: str) -> None:
    async def is_so() -> bool:
        return (await cell.shown()).stage == stage

    await until_so(is_so, seconds=100)


@asynccontextmanager
async def _callers(url: str, key: str) -> AsyncIterator[None]:
    """Clients that ask again and again, each time with a prompt that nobody has seen."""
    numbers = itertools.count()
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        headers={"authorization": f"Bearer {key}"}, timeout=30, trust_env=False, limits=limits
    ) as client:

        async def call() -> None:
            while True:
                text = " ".join(f"{next(numbers)}" for _ in range(WORDS))
                message = {"role": "user", "content": text}
                body = {"model": MODEL, "messages": [message], "max_tokens": 2, "stream": True}
                await client.post(f"{url}/v1/chat/completions", json=body)

        async with asyncio.TaskGroup() as group:
            calls = [group.create_task(call()) for _ in range(CLIENTS)]
            yield
            for each in calls:
                each.cancel()
