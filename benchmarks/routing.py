"""What routing is worth, in a simulated fleet, beside the rules of other gateways.

`python benchmarks/routing.py [--full] [--quick] [--seeds N] [--traces DIR] [--check-reference DIR]`
runs the very code of penstock.routing and the peers' rules on Moonshot's traces. It prints tables
and, as its last line, JSON with the worst of set-ups A, C and D. `--generated` needs no traces.
"""

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fleet_simulator.cell import PENSTOCK, Change
from fleet_simulator.engine_constants import EngineConstants
from fleet_simulator.peer_rules.rules import (
    CACHE_AWARE,
    LEAST_EXPECTED_WAIT,
    LLM_D,
    LMETRIC_NEW,
    LMETRIC_QUEUED,
    PEERS,
    ROUND_ROBIN,
    SESSION_HASH,
)
from routing_decision import REPLICAS, decision_microseconds
from routing_jobs import (
    GENERATED_SETUPS,
    LOADS,
    NO_MARGIN,
    SETUPS,
    STRICT,
    Job,
    Source,
    run_jobs,
    run_scale_events,
)
from routing_plots import plot_p95
from routing_reference import check_reference
from routing_report import json_line, rules_table, scale_table, staying_table, wanted_table
from routing_requirements import GATEWAYS, heard, ours, silent

_ROOT = Path(__file__).parent.parent
_SEEDS = (1, 2, 3)
_QUICK_REQUESTS = 2500


class Plan(msgspec.Struct, frozen=True):
    """What to run."""

    setups: Sequence[str]
    seeds: Sequence[int]
    source: Source
    is_full: bool
    is_scale_only: bool
    plots: Path
    reference: Path | None


def read_plan() -> Plan:
    parser = argparse.ArgumentParser(description="What routing is worth, in a simulated fleet.")
    parser.add_argument("--traces", type=Path, default=_ROOT.parent / "shared" / "traces")
    parser.add_argument("--full", action="store_true", help="every rule and load, with plots")
    parser.add_argument("--scale", action="store_true", help="only what changes of the fleet cost")
    parser.add_argument("--quick", action="store_true", help="one seed, short traces: for trying")
    parser.add_argument("--seeds", type=int, default=len(_SEEDS), help="how many, at most 3")
    parser.add_argument("--generated", action="store_true", help="made-up traffic, no traces")
    parser.add_argument("--plots", type=Path, default=_ROOT / "docs" / "plots")
    parser.add_argument(
        "--check-reference",
        type=Path,
        nargs="?",
        const=_ROOT.parent / "shared" / "routing",
        help="compare with the reference simulator in this folder, and end",
    )
    options = parser.parse_args()
    return Plan(
        setups=tuple(GENERATED_SETUPS if options.generated else SETUPS),
        seeds=_SEEDS[: 1 if options.quick else options.seeds],
        source=Source(options.traces, _QUICK_REQUESTS if options.quick else 0),
        is_full=options.full,
        is_scale_only=options.scale,
        plots=options.plots,
        reference=options.check_reference,
    )


def main() -> None:
    plan = read_plan()
    setups = [(SETUPS | GENERATED_SETUPS)[name] for name in plan.setups]
    missing = plan.source.missing(setups)
    if missing:
        print(f"Not there: {', '.join(map(str, missing))}.", file=sys.stderr)
        print(
            "Moonshot publishes the traces in the repository kvcache-ai/Mooncake, folder "
            "FAST25-release/traces. Put them in a folder and name it with --traces, or run with "
            "--generated, on made-up traffic.",
            file=sys.stderr,
        )
        raise SystemExit(2)
    if plan.reference is not None:
        raise SystemExit(0 if check_reference(plan.reference, plan.source) else 1)
    if plan.is_scale_only:
        tell_scale_events(plan)
        return
    run(plan)


def run(plan: Plan) -> None:
    start = time.monotonic()
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, ", end="")
    print(f"{platform.system()} {platform.release()}, Python {platform.python_version()}")
    print(f"Engines, assumed: {EngineConstants().described()}")
    print(
        f"Seeds {', '.join(map(str, plan.seeds))}; the first tenth of each trace is warm-up. "
        "Gateways that hear each other tell every 250 ms, one after the other; the engines' own "
        "figures reach every gateway every 250 ms; peers' gateways share nothing else.",
        flush=True,
    )
    median, p99 = decision_microseconds()
    jobs = full_jobs(plan.setups) if plan.is_full else json_jobs(plan.setups)
    results = run_jobs(jobs, plan.seeds, plan.source)
    print(f"\n{rules_table(results, plan.setups)}\n\n{wanted_table(results, plan.setups)}\n")
    if plan.is_full:
        for path in plot_p95(results, plan.setups, plan.plots):
            print(f"plotted {path}")
        print(
            f"The price of staying, 1 gateway\n\n{staying_table(results, plan.setups)}\n",
            flush=True,
        )
        tell_scale_events(plan)
    print(f"A choice among {REPLICAS} replicas: median {median:.1f} us, p99 {p99:.1f} us of CPU")
    print(f"{time.monotonic() - start:.0f} s in all")
    print(json_line(results, plan.setups, p99))


def tell_scale_events(plan: Plan) -> None:
    scaled = [job for s in plan.setups for load in (75, 92) for job in _scaled(s, load)]
    outcomes = run_scale_events(scaled, plan.seeds, plan.source)
    print("\nReplicas added, drained and killed at half time; the ratio wanted is 1.15\n")
    print(f"{scale_table(outcomes)}\n")


def json_jobs(setups: Sequence[str]) -> list[Job]:
    """Only what the line of JSON needs."""
    jobs: list[Job] = []
    for setup in setups:
        jobs += [ours(setup, 75), ours(setup, 92), heard(setup, 92), silent(setup, 92)]
        jobs += [Job(setup, 75, rule) for rule in (CACHE_AWARE, ROUND_ROBIN)]
        jobs += [Job(setup, 92, rule) for rule in (LMETRIC_QUEUED, LMETRIC_NEW, LLM_D)]
        jobs += [Job(setup, 92, rule, GATEWAYS) for rule in PEERS]
    return jobs


def full_jobs(setups: Sequence[str]) -> list[Job]:
    """Every rule at every load, with one gateway and with four."""
    jobs: list[Job] = []
    for setup in setups:
        for load in LOADS:
            jobs += [ours(setup, load), heard(setup, load), silent(setup, load)]
            jobs += [Job(setup, load, PENSTOCK, variant=name) for name in (STRICT, NO_MARGIN)]
            for rule in (*PEERS, LEAST_EXPECTED_WAIT, SESSION_HASH):
                jobs += [Job(setup, load, rule), Job(setup, load, rule, GATEWAYS)]
    return jobs


def _scaled(setup: str, load: int) -> list[Job]:
    return [
        msgspec.structs.replace(job, change=change)
        for job in (ours(setup, load), heard(setup, load))
        for change in Change
        if change is not Change.NONE
    ]


if __name__ == "__main__":
    main()
