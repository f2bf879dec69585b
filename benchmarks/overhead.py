"""What the gateway costs, beside vllm-router and a bare upstream, in one interleaved run.

`python benchmarks/overhead.py [--rounds 9] [--quick]` builds the C upstream and load generator,
pins each candidate to core 0 and them to core 1, and measures round by round. It prints a table
and, as its last line, JSON with the median ratios to vllm-router, and of the gateway to itself with
a null meter. Needs gcc, taskset, two cores.
"""

import argparse
import os
import platform
import time
from pathlib import Path

import msgspec

from candidates import (
    Candidate,
    start_bare,
    start_upstream,
    start_vllm_router,
    stop_process,
)
from figures import Rounds, Spread, cpu_ratio, table
from native_programs import build
from penstock_candidate import start_penstock
from process_tree import pss_megabytes
from scenarios import BODY_1MB, CHUNK, SCENARIOS, SMALL, run_once

BARE, OURS, UNMETERED, THEIRS = "bare", "penstock", "null-meter", "vllm-router"
_WARM_UP_SECONDS = 1.0
_QUICK_ROUNDS = 3


class Plan(msgspec.Struct, frozen=True):
    """How long and with whom."""

    rounds: int
    seconds: float
    wanted: list[str]
    cache: Path


def read_plan() -> Plan:
    parser = argparse.ArgumentParser(description="The gateway's overhead beside vllm-router's.")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run")
    parser.add_argument("--quick", action="store_true", help="3 short rounds, to see that it works")
    parser.add_argument("--candidates", default=f"{BARE},{OURS},{UNMETERED},{THEIRS}")
    home = os.environ.get("PENSTOCK_CACHE")  # noqa: TID251 - the cache's place, as in the Makefile
    default_cache = Path(home) if home else Path.home() / ".cache" / "penstock"
    parser.add_argument("--cache", type=Path, default=default_cache)
    options = parser.parse_args()
    return Plan(
        rounds=_QUICK_ROUNDS if options.quick else min(max(options.rounds, 1), 100),
        seconds=0.7 if options.quick else min(max(options.seconds, 0.5), 60.0),
        wanted=[
            BARE,
            *(key for key in (OURS, UNMETERED, THEIRS) if key in options.candidates.split(",")),
        ],
        cache=options.cache,
    )


def start(key: str, ports: list[int], cache: Path) -> Candidate:
    if key == BARE:
        return start_bare(ports)
    if key == THEIRS:
        return start_vllm_router(ports, cache)
    return start_penstock(ports, is_metered=key == OURS)


def measure(plan: Plan, candidates: dict[str, Candidate], loadgen: Path) -> Rounds:
    """All rounds. The order of the candidates turns, so that none is always first."""
    rounds: Rounds = {scenario.name: {key: [] for key in candidates} for scenario in SCENARIOS}
    keys = list(candidates)
    for number in range(-1, plan.rounds):
        turned = keys[number % len(keys) :] + keys[: number % len(keys)]
        for scenario in SCENARIOS:
            for key in turned:
                is_warm_up = number < 0
                seconds = _WARM_UP_SECONDS if is_warm_up else plan.seconds
                cost = run_once(scenario, candidates[key], loadgen, seconds)
                if not is_warm_up:
                    rounds[scenario.name][key].append(cost)
        if number >= 0:
            print(f"round {number + 1} of {plan.rounds}, load {os.getloadavg()[0]:.1f}", flush=True)
    return rounds


def main() -> None:
    plan = read_plan()
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("this benchmark pins to two cores, and there is one")
    programs = plan.cache / "benchmarks"
    build(programs)
    upstream, ports = start_upstream(programs / "upstream")
    candidates: dict[str, Candidate] = {}
    try:
        for key in plan.wanted:
            candidates[key] = start(key, ports, plan.cache)
        rounds = measure(plan, candidates, programs / "loadgen")
        memory = {
            key: pss_megabytes(candidate.process.pid) / candidate.workers
            for key, candidate in candidates.items()
            if candidate.process is not None
        }
    finally:
        for candidate in candidates.values():
            candidate.stop()
        stop_process(upstream)
    report(plan, rounds, {key: candidates[key].name for key in candidates}, memory)


def report(plan: Plan, rounds: Rounds, names: dict[str, str], memory: dict[str, float]) -> None:
    """The machine, the table, the ratios, and the line of JSON."""
    print(f"\n{time.strftime('%Y-%m-%d')}, {_processor()}, {os.cpu_count()} cores, ", end="")
    print(f"{platform.system()} {platform.release()}, Python {platform.python_version()}; ", end="")
    print(f"{plan.rounds} rounds of {plan.seconds} s; median (quartiles)\n")
    print(table(rounds, names, memory, BARE))
    ratios = {
        "small_cpu_ratio": cpu_ratio(rounds, SMALL, OURS, THEIRS),
        "chunk_cpu_ratio": cpu_ratio(rounds, CHUNK, OURS, THEIRS),
        "body_1mb_cpu_ratio": cpu_ratio(rounds, BODY_1MB, OURS, THEIRS),
        "metering_cpu_ratio": cpu_ratio(rounds, SMALL, OURS, UNMETERED),
        "metering_chunk_cpu_ratio": cpu_ratio(rounds, CHUNK, OURS, UNMETERED),
    }
    print("\nratios to vllm-router, and of metering to the null meter;", end=" ")
    print("median of the rounds' own (quartiles)")
    for name, ratio in ratios.items():
        print(f"  {name}: {ratio.shown(2) if ratio else 'not measured'}")
    has_both = OURS in memory and THEIRS in memory
    memory_ratio = round(memory[OURS] / memory[THEIRS], 3) if has_both else None
    line = {name: _rounded(ratio) for name, ratio in ratios.items()}
    print(msgspec.json.encode({**line, "memory_ratio": memory_ratio}).decode(), flush=True)


def _rounded(ratio: Spread | None) -> float | None:
    return round(ratio.median, 3) if ratio else None


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    main()
