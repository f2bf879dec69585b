"""Kills gateways and stops Postgres under load, and counts what metering lost, doubled or overran.

`python -m tests.chaos.metering [--short] [--only a] [--seed N]`; its last line is the result as
JSON, and it ends with 1 unless every promise was kept. Parts: a kill -9 with streams open, b kill
between journal and Postgres, c Postgres stopped, d racing for a budget.
"""

import argparse
import random
import sys
import time

import msgspec
from tests.chaos import part_kill, part_outage, part_race, part_replay
from tests.chaos.findings import Findings


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill and outage tests of metering and limits.")
    parser.add_argument("--short", action="store_true", help="2 to 3 minutes, for CI")
    parser.add_argument("--only", default="abcd", help="the parts to run, e.g. `ac`")
    parser.add_argument("--seed", type=int, default=None, help="to repeat an earlier run's moments")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    is_short = options.short
    findings = Findings(seed=seed)
    began = time.monotonic()
    print(f"seed {seed}", flush=True)
    for name in options.only:
        source = random.Random(f"{seed}-{name}")
        if name == "a":
            part_kill.run(findings, source, moments=3 if is_short else 10)
        elif name == "b":
            part_replay.run(findings, source, rounds=2 if is_short else 5)
        elif name == "c":
            part_outage.run(findings, seconds=20 if is_short else 60)
        elif name == "d":
            part_race.run(findings, source, requests=200 if is_short else 500)
        print(f"{name}: done at {time.monotonic() - began:.0f} s", flush=True)
    findings.seconds = round(time.monotonic() - began, 1)
    print(msgspec.json.encode(findings).decode(), flush=True)
    return 0 if findings.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
