"""Kills gateways and keepers while background responses are queued and read.

`python -m tests.chaos.agents [--short] [--seed N]`; its last line is the result as JSON, and it
ends with 1 unless every response was completed and billed once, and every reader got its events
without a gap.
"""

import argparse
import asyncio
import random
import sys
import time
from pathlib import Path

import msgspec
from tests.chaos.agents_load import AgentLoad
from tests.chaos.agents_verdict import AgentFindings, check_books
from tests.chaos.cluster import kill as kill_gateway
from tests.chaos.flex_cell import FlexCell
from tests.chaos.postgres_cluster import PostgresCluster


class Size(msgspec.Struct, frozen=True):
    """How many responses, how often something is killed, and how long all may take."""

    responses: int
    kills_min: int
    gateway_seconds: float
    keeper_seconds: float
    quiet_seconds_max: float


_LONG = Size(600, 60, 2.0, 10.0, 600.0)
_SHORT = Size(200, 20, 2.0, 10.0, 300.0)
_ACCOUNTS = 8
_SLOTS = 4


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill tests of background responses.")
    parser.add_argument("--short", action="store_true", help="about a minute, for CI")
    parser.add_argument("--seed", type=int, default=None, help="to repeat an earlier run's plan")
    parser.add_argument("--postgres", type=Path, default=None, help="the binaries' folder")
    parser.add_argument("--keep-logs", action="store_true", help="leave them where they are")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    size = _SHORT if options.short else _LONG
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    with (
        PostgresCluster(options.postgres) as postgres,
        FlexCell(
            postgres.dsn, accounts=_ACCOUNTS, slots=_SLOTS, keeps_logs=options.keep_logs
        ) as cell,
    ):
        print(f"started after {time.monotonic() - began:.0f} s", flush=True)
        findings = asyncio.run(_run(cell, postgres, size, seed))
    print("\n".join(findings.problems), flush=True)
    findings.seconds = round(time.monotonic() - began, 1)
    print(findings.as_json(), flush=True)
    return 0 if findings.is_good(size.responses, size.kills_min) else 1


async def _run(cell: FlexCell, postgres: PostgresCluster, size: Size, seed: int) -> AgentFindings:
    findings = AgentFindings()
    load = AgentLoad(cell, random.Random(seed), findings)
    is_over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(_kill_gateways(cell, size, findings, is_over))
        group.create_task(_kill_keepers(cell, size, findings, is_over))
        group.create_task(_load(load, size, findings, is_over))
    await load.check_texts()
    await asyncio.to_thread(check_books, postgres.dsn, findings)
    await load.close()
    return findings


async def _load(
    load: AgentLoad, size: Size, findings: AgentFindings, is_over: asyncio.Event
) -> None:
    """Submit and read everything; go on until so much was killed."""
    try:
        async with asyncio.timeout(size.quiet_seconds_max):
            while len(load.asked) < size.responses or findings.kills < size.kills_min:
                await load.run(min(20, max(4, size.responses - len(load.asked))))
    except TimeoutError:
        findings.note("stuck", f"{len(load.open)} responses have not ended in time")
    finally:
        is_over.set()


async def _kill_gateways(
    cell: FlexCell, size: Size, findings: AgentFindings, is_over: asyncio.Event
) -> None:
    number = 0
    while not await _pause(size.gateway_seconds, is_over):
        number += 1
        at = number % len(cell.gateways)
        await asyncio.to_thread(kill_gateway, cell.gateways[at])
        findings.kills += 1
        await asyncio.to_thread(cell.start_gateway, at)


async def _kill_keepers(
    cell: FlexCell, size: Size, findings: AgentFindings, is_over: asyncio.Event
) -> None:
    number = 0
    while not await _pause(size.keeper_seconds, is_over):
        number += 1
        keeper = cell.keepers[number % len(cell.keepers)]
        await asyncio.to_thread(keeper.kill)
        findings.kills += 1
        await asyncio.to_thread(keeper.start)


async def _pause(seconds: float, is_over: asyncio.Event) -> bool:
    """Wait; return whether it is over."""
    try:
        async with asyncio.timeout(seconds):
            await is_over.wait()
    except TimeoutError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
