"""Kills gateways and stops Postgres under load, while contracts withhold and change answers.

`python -m tests.chaos.contracts [--short] [--seed N]`; its last line is the result as JSON, and it
ends with 1 unless every effect that a client saw is one row of the log of decisions, each withheld
answer one charge, the log's chains are whole, and the load was as large as it must be.
"""

import argparse
import asyncio
import contextlib
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
from tests.chaos.cluster import Cluster
from tests.chaos.contracts_load import Load
from tests.chaos.contracts_log import DecisionCommands
from tests.chaos.contracts_plan import write_contracts
from tests.chaos.contracts_trouble import WORKERS, Trouble, start_gateway
from tests.chaos.contracts_verdict import ContractFindings, judge
from tests.integration.cells.gateway_cell import COMPOSED, NATIVE
from tests.integration.cells.gateway_process import GatewayProcess


class Size(msgspec.Struct, frozen=True):
    """How much there must be at least, kills before and after Postgres is away, and how long."""

    requests_min: int
    withheld_min: int
    kills: int
    away_seconds: float


_LONG = Size(5000, 500, kills=10, away_seconds=60.0)
_SHORT = Size(1000, 100, kills=2, away_seconds=10.0)
_MODELS = NATIVE, COMPOSED
_SETTINGS = {
    "ingress.workers": WORKERS,
    "metering.adopt_seconds": 1.0,
    "metering.drain_seconds": 0.5,
}
_ROWS_SECONDS = 60.0
# How long a slow machine may go on after the last kill, until its load was large enough.
_SLOW_SECONDS_MAX = 300.0


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill and outage tests of contracts.")
    parser.add_argument("--short", action="store_true", help="about a minute, for CI")
    parser.add_argument("--seed", type=int, default=None, help="to repeat an earlier run's moments")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    size = _SHORT if options.short else _LONG
    print(f"seed {seed}; at least {size.requests_min} requests and {size.withheld_min} withheld"
          " answers", flush=True)  # fmt: skip
    began = time.monotonic()
    with Cluster(_SETTINGS) as cluster:
        findings = _run(cluster, size, random.Random(seed), began)
    findings.seed = seed
    findings.seconds = round(time.monotonic() - began, 1)
    print("\n".join(findings.cases), flush=True)
    print(findings.as_json(), flush=True)
    is_enough = findings.requests >= size.requests_min and findings.withheld >= size.withheld_min
    return 0 if findings.is_kept and is_enough else 1


def _run(cluster: Cluster, size: Size, source: random.Random, began: float) -> ContractFindings:
    for model in _MODELS:
        cluster.cell.enroll(cluster.engine.url, model, slots_live=10**6)
    catalogue = cluster.folder / "first" / "catalogue"
    commands = DecisionCommands(cluster.folder, cluster.dsn, catalogue)
    write_contracts(cluster.folder / "contracts")
    commands.apply_contracts(cluster.folder / "contracts")
    gateways = [cluster.gateway, cluster.add_gateway()]
    _start(gateways)
    print(f"load begins at {time.monotonic() - began:.0f} s", flush=True)
    load = Load(gateways, cluster.cell, source, (size.requests_min, size.withheld_min))
    trouble = Trouble(cluster, gateways, commands, source)
    asyncio.run(_disturb(load, trouble, size))
    print(f"load ended at {time.monotonic() - began:.0f} s", flush=True)
    # Journals of workers that were killed are drained by those that start.
    for gateway in gateways:
        gateway.stop()
    _start(gateways)
    with cluster.connect() as connection:
        findings = judge(connection, cluster.engine, load.seen, _ROWS_SECONDS)
    findings.unanswered = load.unanswered
    findings.kills = trouble.kills
    print(f"rows were there at {time.monotonic() - began:.0f} s", flush=True)
    _verify(commands, findings)
    return findings


def _start(gateways: list[GatewayProcess]) -> None:
    with ThreadPoolExecutor() as threads:
        list(threads.map(start_gateway, gateways))


async def _disturb(load: Load, trouble: Trouble, size: Size) -> None:
    is_over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run(is_over))
        group.create_task(trouble.hold_heads(is_over))
        try:
            await trouble.kill_again_and_again(size.kills)
            await trouble.take_postgres_away(size.away_seconds)
            await trouble.kill_again_and_again(size.kills)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_SLOW_SECONDS_MAX):
                    await load.is_enough.wait()
        finally:
            is_over.set()


def _verify(commands: DecisionCommands, findings: ContractFindings) -> None:
    """Run the command that operators verify by: on the log as it is, and then tampered with."""
    # The last head is that of the end of each chain, so that a missing tail shows.
    commands.hold_heads()
    verified = commands.verify()
    findings.chain_breaks = len(verified.faults)
    findings.heads = verified.heads
    findings.cases = [*findings.cases, *(f"chain: {each}" for each in verified.faults[:5])]
    if verified.faults:
        return
    unseen = commands.unseen_tampering()
    findings.unseen_tampering = len(unseen)
    findings.cases = [*findings.cases, *(f"not found: {each}" for each in unseen)]


if __name__ == "__main__":
    sys.exit(main())
