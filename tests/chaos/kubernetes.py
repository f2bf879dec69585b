"""Breaks a cell on a real cluster of two nodes while clients stream: `make chaos-kubernetes`.

`python -m tests.chaos.kubernetes [--seed N]` sets up the cell by the docs' own words, then evicts,
rolls out, kills, cuts cables and power. Its last line is the result as JSON, and it
ends with 1 unless no stream was dropped whose engine lived, every answer is in the ledger, no
replica's id was used twice, and each fault ended as it must.
"""

import argparse
import asyncio
import random
import signal
import sys
import time

import msgspec
from tests.chaos.fleet_load import missing_in_ledger
from tests.chaos.kubernetes_cell import DSN, KubernetesCell, prepare
from tests.chaos.kubernetes_faults import FAULTS, ClusterFaults
from tests.chaos.kubernetes_load import ClusterLoad
from tests.chaos.kubernetes_proofs import check_pods, check_sdk
from tests.chaos.kubernetes_watch import RosterWatch
from tests.nodes.pod_network import enter_own_network, is_own_network

from penstock.store import Store, StoreSettings


class ClusterFindings(msgspec.Struct):
    """What the run has shown; the last line."""

    requests: int = 0
    faults: int = 0
    dropped_streams: int = 0
    lost: int = 0
    double_ids: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Chaos on a cluster.")
    parser.add_argument("--seed", type=int, default=None, help="to repeat an earlier run's order")
    parser.add_argument("--only", default="", help="these faults, with commas between")
    options = parser.parse_args()
    if not is_own_network():
        prepare()
    enter_own_network("tests.chaos.kubernetes")
    # Whoever ends this early must leave no cluster behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    faults = options.only.split(",") if options.only else list(FAULTS)
    random.Random(seed).shuffle(faults)
    print(f"seed {seed}: {faults}", flush=True)
    began = time.monotonic()
    with KubernetesCell() as cell:
        print(f"cluster after {time.monotonic() - began:.0f} s", flush=True)
        cell.follow_page()
        check_pods(cell)
        check_sdk(cell)
        print(f"page and proofs after {time.monotonic() - began:.0f} s", flush=True)
        findings, problems = asyncio.run(_run(cell, faults))
    for problem in problems:
        print(problem, flush=True)
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    print(msgspec.json.encode(findings).decode(), flush=True)
    is_good = not (problems or findings.dropped_streams or findings.lost or findings.double_ids)
    return 0 if is_good else 1


async def _run(cell: KubernetesCell, faults: list[str]) -> tuple[ClusterFindings, list[str]]:
    findings, problems = ClusterFindings(), list[str]()
    store = Store(StoreSettings(dsn=DSN))
    await store.open()
    load, watch = ClusterLoad(cell), RosterWatch(store)
    driver = ClusterFaults(cell, load, watch)
    try:
        await driver.deploy()
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(load.run())
            watching = group.create_task(watch.run())
            await load.all_open.wait()
            for fault in faults:
                problems += await driver.do(fault)
                findings.faults += 1
            load.stop()
            await asyncio.wait([sending])
            watching.cancel()
        findings.requests = load.statuses.total()
        findings.double_ids = len(watch.doubles)
        dropped = [each for each in load.failures if each.is_stream and each.status == 200]
        unexplained = [each for each in dropped if each.replica not in driver.lost]
        findings.dropped_streams = len(unexplained)
        problems += [f"dropped: {each}" for each in unexplained]
        findings.lost = await missing_in_ledger(store, load.served)
        print(f"statuses {dict(load.statuses)}, {load.whole} whole streams,", flush=True)
        print(f"{len(dropped) - len(unexplained)} broken with their engines", flush=True)
    finally:
        await store.close()
    return findings, problems


if __name__ == "__main__":
    sys.exit(main())
