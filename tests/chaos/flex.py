"""Kills gateways, keepers, engines, control and the Postgres primary while jobs are submitted.

`python -m tests.chaos.flex [--short] [--seed N]`; its last line is the result as JSON, and it ends
with 1 unless every accepted job was finished and billed once, and its end was told.
"""

import argparse
import asyncio
import random
import sys
import time
from pathlib import Path

import msgspec
from tests.chaos.flex_cell import FlexCell
from tests.chaos.flex_events import listen_for_events
from tests.chaos.flex_kills import Killer, Target, plan_kills
from tests.chaos.flex_load import Load
from tests.chaos.flex_plan import plan_parcels
from tests.chaos.flex_receiver import Receiver
from tests.chaos.flex_verdict import Books, Findings, check_doors, check_events
from tests.chaos.postgres_cluster import PostgresCluster


class Size(msgspec.Struct, frozen=True):
    """How much is submitted and killed, and how long it may take to become quiet.

    Slots are so few that there is always work left over: a kill finds keepers and engines busy.
    """

    jobs: int
    accounts: int
    slots: int
    kills: int
    primary_kills: int
    stalls: int
    seconds: float
    quiet_seconds_max: float


_LONG = Size(10_000, 50, 16, 30, 3, 3, 360.0, 300.0)
_SHORT = Size(600, 20, 8, 9, 1, 1, 45.0, 75.0)
# Of the time in which things are killed; the rest is for work that is left over.
_SUBMIT_SHARE = 0.75


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill tests of flex jobs.")
    parser.add_argument("--short", action="store_true", help="2 to 3 minutes, for CI")
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
            postgres.dsn,
            accounts=size.accounts,
            slots=size.slots,
            keeps_logs=options.keep_logs,
        ) as cell,
    ):
        print(f"started after {time.monotonic() - began:.0f} s", flush=True)
        findings = asyncio.run(_run(cell, postgres, size, seed))
    findings.seed = seed
    findings.seconds = round(time.monotonic() - began, 1)
    print("\n".join(findings.problems), flush=True)
    print(findings.as_json(), flush=True)
    return 0 if findings.is_good else 1


async def _run(cell: FlexCell, postgres: PostgresCluster, size: Size, seed: int) -> Findings:
    findings = Findings()
    parcels = plan_parcels(
        random.Random(f"{seed}-parcels"), jobs=size.jobs, customers=size.accounts
    )
    kills = plan_kills(
        random.Random(f"{seed}-kills"),
        kills=size.kills,
        primary_kills=size.primary_kills,
        stalls=size.stalls,
        seconds=size.seconds,
    )
    receiver = Receiver(random.Random(f"{seed}-receiver"))
    load = Load(cell, random.Random(f"{seed}-load"))
    killer = Killer(cell, postgres)
    async with receiver.listening():
        await listen_for_events(load, cell.customers, receiver.url)
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run(parcels, size.seconds * _SUBMIT_SHARE))
            group.create_task(killer.run(kills))
        print(f"all is submitted, {load.retries} retries; waiting for the rest", flush=True)
        books = Books(postgres.dsn)
        await books.wait_until_quiet(size.jobs, size.quiet_seconds_max)
        await check_doors(findings, cell, load)
        await asyncio.to_thread(books.check, findings, cell.times_begun())
        check_events(findings, load.accepted, receiver)
    await load.close()
    findings.kills = killer.kills
    findings.primary_kills = killer.strikes[Target.PRIMARY]
    findings.lost = max(0, findings.accepted - findings.finished - findings.stuck - findings.failed)
    findings.seconds_without_primary_max = round(max(postgres.seconds_without, default=0.0), 1)
    return findings


if __name__ == "__main__":
    sys.exit(main())
