"""Kills keepers, engines and control, cuts hosts off and takes Postgres away while models deploy.

`python -m tests.chaos.fleet [--short] [--seed N]`; its last line is the result as JSON, and it ends
with 1 unless no two engines ever had one GPU, no answered request is missing from the ledger, none
went without an answer, and every deployment was as wanted within 60 s of quiet.
"""

import argparse
import asyncio
import random
import sys
import time

import msgspec
from tests.chaos.fleet_cell import HOSTS, MODELS, FleetCell
from tests.chaos.fleet_driver import FleetDriver
from tests.chaos.fleet_load import FleetLoad
from tests.chaos.fleet_steps import draw_steps

from penstock.store import Store, StoreSettings

_PAUSE_SECONDS = 0.55
_QUIET_SECONDS = 60.0
# How often all must come to rest in between.
_REST_EVERY = 100


class FleetFindings(msgspec.Struct):
    """What the run has shown; the last line."""

    requests: int = 0
    steps: int = 0
    kills: int = 0
    double_gpu: int = 0
    lost: int = 0
    stuck: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill tests of deployments.")
    parser.add_argument("--short", action="store_true", help="40 steps, for CI")
    parser.add_argument("--seed", type=int, default=None, help="to repeat an earlier run's steps")
    parser.add_argument("--keep-logs", action="store_true", help="leave them where they are")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    with FleetCell(keeps_logs=options.keep_logs) as cell:
        print(f"started after {time.monotonic() - began:.0f} s", flush=True)
        findings, problems = asyncio.run(_run(cell, 40 if options.short else 300, seed))
    for problem in problems:
        print(problem, flush=True)
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    print(msgspec.json.encode(findings).decode(), flush=True)
    is_good = not (problems or findings.double_gpu or findings.lost or findings.stuck)
    return 0 if is_good else 1


async def _run(cell: FleetCell, steps: int, seed: int) -> tuple[FleetFindings, list[str]]:
    findings, problems = FleetFindings(), list[str]()
    store = Store(StoreSettings(dsn=cell.dsn))
    await store.open()
    driver = FleetDriver(cell, store)
    load = FleetLoad(cell)
    try:
        await driver.begin()
        problems += await driver.rest(_QUIET_SECONDS)
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(load.run())
            watching = group.create_task(driver.watch())
            for step in draw_steps(seed, deployments=len(MODELS), hosts=HOSTS):
                await driver.do(step)
                findings.steps += 1
                is_last = findings.steps >= steps
                if is_last or findings.steps % _REST_EVERY == 0:
                    waiting = await driver.rest(_QUIET_SECONDS)
                    findings.stuck += len(waiting)
                    problems += waiting
                if is_last:
                    break
                await asyncio.sleep(_PAUSE_SECONDS)
            load.stop()
            watching.cancel()
            await asyncio.wait([sending])
        findings.kills = driver.kills
        findings.requests = load.answered
        findings.lost = load.unanswered + await load.missing(store)
        findings.double_gpu = cell.doubles()
        problems += driver.problems
        print(f"statuses {dict(load.statuses)}", flush=True)
    finally:
        await load.close()
        await store.close()
    return findings, problems


if __name__ == "__main__":
    sys.exit(main())
