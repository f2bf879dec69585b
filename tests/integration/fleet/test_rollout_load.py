"""A rollout of eight replicas under open streams and a steady load: nobody notices it."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from tests.integration.fleet.deployed_cell import (
    MODEL,
    DeployedCell,
    deployed_cell,
    gateway_of,
    until_so,
)
from tests.integration.fleet.streaming_crowd import PER_SECOND, STREAMS, CrowdReport

from penstock.policy import AccountBook, KeyBook
from penstock.records.account import Role
from penstock.store import Store

REPLICAS = 8


async def test_nobody_notices_a_rollout(busy_store: Store, dsn: str, hosts_folder: Path) -> None:
    account = await AccountBook(busy_store).create("crowd")
    _, key = await KeyBook(busy_store).create(Role.RUNTIME, account.id, "crowd")
    async with deployed_cell(busy_store, hosts_folder, hosts=6, drain_seconds=60.0) as cell:
        await cell.apply(replicas={"min": REPLICAS, "max": REPLICAS})
        await cell.settled(REPLICAS)
        old = {replica.id for replica in cell.ready()}
        gateway = gateway_of(dsn, hosts_folder)
        await asyncio.to_thread(gateway.start)
        try:
            async with _crowd(gateway.url, key) as crowd:
                await _roll_out(cell)

                async def are_gone() -> bool:
                    return not old & {replica.id for replica in cell.ready()}

                # The roster is mirrored: it may be a moment behind the rollout.
                await until_so(are_gone, seconds=5.0)
                out, _ = await crowd.communicate(b"")
        finally:
            await asyncio.to_thread(gateway.stop)
    report = msgspec.json.decode(out, type=CrowdReport)
    assert report.dropped == []
    assert set(report.statuses) == {"200"}
    assert report.whole >= STREAMS
    assert report.statuses["200"] >= STREAMS + 5 * PER_SECOND


@asynccontextmanager
async def _crowd(url: str, key: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """The clients, once all their streams are open."""
    crowd = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.integration.fleet.streaming_crowd", url, key, MODEL),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    try:
        assert crowd.stdout is not None
        async with asyncio.timeout(30):
            assert await crowd.stdout.readline() == b"open\n"
        yield crowd
    finally:
        if crowd.returncode is None:
            crowd.kill()
            await crowd.wait()


async def _roll_out(cell: DeployedCell) -> None:
    replicas = {"min": REPLICAS, "max": REPLICAS}
    await cell.apply(replicas=replicas, environment={"NEW": "1"}, rollout={"surge": 4})
    cell.fewest.clear()
    deadline = time.monotonic() + 90
    while (shown := await cell.shown()).stage != "done" or shown.ready != REPLICAS:
        assert time.monotonic() < deadline, shown
        await asyncio.sleep(0.2)
    assert min(cell.fewest) >= REPLICAS
