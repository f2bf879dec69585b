"""What the gateway costs, beside its peers and a bare upstream, in one interleaved run.

`python benchmarks/overhead.py [--starts 3] [--rounds 3] [--quick] [--only small,chunk]` pins each
candidate to core 0, the C upstream and load generator to core 1, and measures round by round.
Prints a table and last JSON: median ratios to vllm-router by consistent hash, and to a null meter.
Needs gcc, two cores, and nginx for the candidate of that name; says at once what is missing.
`--gate FILE` fails where a ratio is above the one in FILE.
`--candidates` also knows `interpreted`, the gateway without compiled modules.

Everything is started anew several times: two processes of the same program differ by a tenth,
by where their pages lie, and more rounds with the same two would only repeat that.
"""

import argparse
import os
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from candidates import Candidate, start_bare, start_upstream, stop_process
from compiled_package import cache_folder
from figures import Rounds, Spread, added_ratio, cpu_ratio, machine, table
from native_programs import build
from needs import COMPILED, LOAD, require
from peers import start_litellm, start_nginx, start_sglang_router, start_vllm_router
from penstock_candidate import start_penstock
from process_tree import pss_megabytes
from scenarios import (
    AGENT,
    BODY_1MB,
    BODY_1MB_NEW,
    BODY_300KB,
    BODY_300KB_NEW,
    CHUNK,
    FIRST_TOKEN,
    SCENARIOS,
    SINGLE,
    SMALL,
    Scenario,
    run_once,
)

if TYPE_CHECKING:
    from collections.abc import Callable

BARE, OURS, UNMETERED, THEIRS = "bare", "penstock", "null-meter", "vllm-router"
CACHE_AWARE, SGLANG, LITELLM, NGINX = "vllm-router-cache-aware", "sglang-router", "litellm", "nginx"
INTERPRETED = "interpreted"
USUAL = (BARE, OURS, UNMETERED, THEIRS, CACHE_AWARE, SGLANG, NGINX, LITELLM)
ALL = (*USUAL, INTERPRETED)
# It makes about a thousand chunks a second: its streams would not end in time.
_NOT_STREAMED = frozenset({LITELLM})
# Long enough for each of 200 conversations of 1 MB to come once.
_WARM_UP_SECONDS = 2.0
_QUICK_ROUNDS = 3


class Plan(msgspec.Struct, frozen=True):
    """How long and with whom."""

    starts: int
    # After each start.
    rounds: int
    seconds: float
    wanted: list[str]
    scenarios: list[Scenario]
    cache: Path
    gate: Path | None


def read_plan() -> Plan:
    parser = argparse.ArgumentParser(description="The gateway's overhead beside vllm-router's.")
    parser.add_argument("--starts", type=int, default=3, help="of every candidate, anew")
    parser.add_argument("--rounds", type=int, default=3, help="after each start")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run")
    parser.add_argument(
        "--quick", action="store_true", help="one start, 3 short rounds, to see that it works"
    )
    parser.add_argument("--candidates", default=",".join(USUAL))
    names = ",".join(scenario.name for scenario in SCENARIOS)
    parser.add_argument("--only", default=names, help=f"of {names}")
    parser.add_argument("--gate", type=Path, help="JSON with the largest ratios that may be")
    parser.add_argument("--cache", type=Path, default=cache_folder())
    options = parser.parse_args()
    for given, known in ((options.candidates, ALL), (options.only, names.split(","))):
        if strange := set(given.split(",")) - set(known):
            parser.error(f"{', '.join(sorted(strange))}: not one of {', '.join(known)}")
    return Plan(
        starts=1 if options.quick else min(max(options.starts, 1), 100),
        rounds=_QUICK_ROUNDS if options.quick else min(max(options.rounds, 1), 100),
        seconds=0.7 if options.quick else min(max(options.seconds, 0.5), 60.0),
        wanted=[key for key in ALL if key == BARE or key in options.candidates.split(",")],
        scenarios=[one for one in SCENARIOS if one.name in options.only.split(",")],
        cache=options.cache,
        gate=options.gate,
    )


class Measured(msgspec.Struct):
    """What came out: every round's costs, and each candidate's memory after each start's rounds."""

    rounds: Rounds = {}
    names: dict[str, str] = {}
    memory: dict[str, list[float]] = {}


def start(key: str, ports: list[int], cache: Path) -> Candidate:
    starts: dict[str, Callable[[], Candidate]] = {
        BARE: lambda: start_bare(ports),
        OURS: lambda: start_penstock(ports),
        INTERPRETED: lambda: start_penstock(ports, is_compiled=False),
        UNMETERED: lambda: start_penstock(ports, is_metered=False),
        THEIRS: lambda: start_vllm_router(ports, cache),
        CACHE_AWARE: lambda: start_vllm_router(ports, cache, "cache_aware"),
        SGLANG: lambda: start_sglang_router(ports, cache),
        LITELLM: lambda: start_litellm(ports, cache),
        NGINX: lambda: start_nginx(ports),
    }
    return starts[key]()


def programs_for(wanted: list[str]) -> set[str]:
    """What these candidates need beside `make setup`."""
    programs = {*LOAD, *(COMPILED if {OURS, UNMETERED} & set(wanted) else ())}
    return programs | ({"nginx"} if NGINX in wanted else set())


def is_run(scenario: Scenario, key: str) -> bool:
    """The bare upstream's own CPU is not compared, only its times and its rate."""
    if key == BARE:
        return scenario in (SINGLE, FIRST_TOKEN, CHUNK)
    return key not in _NOT_STREAMED or scenario not in (CHUNK, AGENT)


def measure(plan: Plan, programs: Path) -> Measured:
    """All rounds of all starts."""
    measured = Measured()
    for number in range(plan.starts):
        upstream, ports = start_upstream(programs / "upstream")
        candidates: dict[str, Candidate] = {}
        try:
            for key in plan.wanted:
                candidates[key] = start(key, ports, plan.cache)
                measured.names[key] = candidates[key].name
            print(f"start {number + 1} of {plan.starts}", flush=True)
            play(plan, candidates, programs / "loadgen", measured.rounds)
            for key, candidate in candidates.items():
                if candidate.process is not None:
                    megabytes = pss_megabytes(candidate.process.pid) / candidate.workers
                    measured.memory.setdefault(key, []).append(megabytes)
        finally:
            for candidate in candidates.values():
                candidate.stop()
            stop_process(upstream)
    return measured


def play(plan: Plan, candidates: dict[str, Candidate], loadgen: Path, rounds: Rounds) -> None:
    """The rounds after one start. The candidates' order turns, so that none is always first."""
    keys = list(candidates)
    for number in range(-1, plan.rounds):
        turned = keys[number % len(keys) :] + keys[: number % len(keys)]
        for scenario in plan.scenarios:
            for key in turned:
                if not is_run(scenario, key):
                    continue
                is_warm_up = number < 0
                seconds = _WARM_UP_SECONDS if is_warm_up else plan.seconds
                cost = run_once(scenario, candidates[key], loadgen, seconds)
                if not is_warm_up:
                    rounds.setdefault(scenario.name, {}).setdefault(key, []).append(cost)
        if number >= 0:
            print(f"round {number + 1} of {plan.rounds}, load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    plan = read_plan()
    if (os.cpu_count() or 1) < 2:
        raise SystemExit("this benchmark pins to two cores, and there is one")
    require(programs_for(plan.wanted), "Or leave a candidate out: --candidates.")
    programs = plan.cache / "benchmarks"
    build(programs)
    ratios = report(plan, measure(plan, programs))
    if plan.gate is not None:
        hold(ratios, msgspec.json.decode(plan.gate.read_bytes(), type=dict[str, float]))


def hold(ratios: dict[str, float | None], gates: dict[str, float]) -> None:
    """End with an error where a ratio is above its gate, or none was measured."""
    pairs = {
        name: (gate, ratio)
        for name, gate in gates.items()
        if (ratio := ratios.get(name)) is not None
    }
    if not pairs:
        raise SystemExit("none of the ratios that have a gate was measured")
    above = [
        f"{name}: {ratio} is above {gate}" for name, (gate, ratio) in pairs.items() if ratio > gate
    ]
    if above:
        raise SystemExit("\n".join(above))


def report(plan: Plan, measured: Measured) -> dict[str, float | None]:
    """The machine, the table, the ratios, and the line of JSON, which is also returned."""
    rounds = measured.rounds
    memory = {key: median(values) for key, values in measured.memory.items()}
    how = f"{plan.starts} x {plan.rounds} rounds of {plan.seconds} s"
    print(f"\n{machine()}; {how}; median (quartiles)\n")
    print(table(rounds, measured.names, memory, BARE))
    ratios = {
        "small_cpu_ratio": cpu_ratio(rounds, SMALL, OURS, THEIRS),
        "chunk_cpu_ratio": cpu_ratio(rounds, CHUNK, OURS, THEIRS),
        "body_300kb_cpu_ratio": cpu_ratio(rounds, BODY_300KB, OURS, THEIRS),
        "body_1mb_cpu_ratio": cpu_ratio(rounds, BODY_1MB, OURS, THEIRS),
        "body_300kb_new_cpu_ratio": cpu_ratio(rounds, BODY_300KB_NEW, OURS, THEIRS),
        "body_1mb_new_cpu_ratio": cpu_ratio(rounds, BODY_1MB_NEW, OURS, THEIRS),
        "agent_cpu_ratio": cpu_ratio(rounds, AGENT, OURS, THEIRS),
        "ttft_ratio": added_ratio(rounds, FIRST_TOKEN, OURS, THEIRS, BARE),
        "metering_cpu_ratio": cpu_ratio(rounds, SMALL, OURS, UNMETERED),
        "metering_chunk_cpu_ratio": cpu_ratio(rounds, CHUNK, OURS, UNMETERED),
        "compiled_cpu_ratio": cpu_ratio(rounds, SMALL, OURS, INTERPRETED),
        "compiled_chunk_cpu_ratio": cpu_ratio(rounds, CHUNK, OURS, INTERPRETED),
    }
    print("\nratios to vllm-router, of metering to the null meter, and of compiled to interpreted;")
    print("median of the rounds' own (quartiles)")
    for name, ratio in ratios.items():
        print(f"  {name}: {ratio.shown(2) if ratio else 'not measured'}")
    has_both = OURS in memory and THEIRS in memory
    memory_ratio = round(memory[OURS] / memory[THEIRS], 3) if has_both else None
    line = {name: _rounded(ratio) for name, ratio in ratios.items()}
    line["memory_ratio"] = memory_ratio
    print(msgspec.json.encode(line).decode(), flush=True)
    return line


def _rounded(ratio: Spread | None) -> float | None:
    return round(ratio.median, 3) if ratio else None


if __name__ == "__main__":
    main()
