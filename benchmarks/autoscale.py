"""What autoscaling saves in a simulated fleet, and what first tokens pay for it.

`python benchmarks/autoscale.py [--seeds N] [--copies N] [--traces DIR] [--plots DIR]` runs the very
code of penstock.fleet.cell.autoscale and penstock.routing on a day made of Moonshot's trace: its
sessions come and go as a sine, four at the peak for one at night. Beside it a fleet of fixed size,
an oracle that knows the sine, and KEDA's rule. Prints a table, draws a plot and ends with JSON.
"""

import argparse
import os
import platform
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import msgspec

from autoscale_plot import plot_day
from fleet_simulator.cell import PENSTOCK, Cell, CellKnowledge, run_cell
from fleet_simulator.daily_load import DailyLoad, make_day
from fleet_simulator.engine_constants import EngineConstants
from fleet_simulator.figures import figures_of
from fleet_simulator.flight import TraceRequest
from fleet_simulator.scale_rules import KedaRule, oracle, our_rule, static
from fleet_simulator.scaled_cell import ScaledCell, ScaledOutcome, ScaleRule, run_scaled
from fleet_simulator.trace import read_trace

_ROOT = Path(__file__).parent.parent
_PROCESSES = 2
# A day of four hours: the rule has a sixth of a real day's time for the same rise, so the cool-down
# is a sixth of its default too. A start is as long as on a real host.
_DAY_SECONDS = 4 * 3600.0
_COOLDOWN_SECONDS = 100.0
_START_SECONDS = 180.0
_GATEWAYS = 2
# The fixed size is the smallest with such a p95 in half an hour of the peak's load.
_PEAK_SECONDS = 1800.0
_PEAK_P95_SECONDS = 3.5
_WARM_SECONDS = 300.0
# Our rule is told this multiple of the fixed size's p95, and is held to it.
_P95_RATIO_MAX = 1.25
_HOURS_RATIO_MAX = 0.65
# Requests in flight by replica, for KEDA: about what one has at two thirds of its use. By waiting
# requests, as its examples for vLLM have it, KEDA takes replicas away until some wait.
_KEDA_IN_FLIGHT = 16.0
RULES = ("static", "oracle", "keda", "penstock")


class DayRuns(msgspec.Struct, frozen=True):
    """One seed's runs: the fixed size, and by rule what came out."""

    replicas: int
    outcomes: dict[str, ScaledOutcome]


def main() -> None:
    parser = argparse.ArgumentParser(description="Autoscaling of a simulated fleet.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--copies", type=int, default=4, help="the trace's service, at the peak")
    parser.add_argument("--traces", type=Path, default=_ROOT.parent / "shared" / "traces")
    parser.add_argument("--plots", type=Path, default=_ROOT / "docs" / "plots")
    options = parser.parse_args()
    start = time.monotonic()
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, ", end="")
    print(f"{platform.system()} {platform.release()}, Python {platform.python_version()}")
    print(f"engines, assumed: {EngineConstants().described()}; a start takes {_START_SECONDS:g} s")
    trace = options.traces / "conversation_trace.jsonl"
    seeds = range(1, options.seeds + 1)
    with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as pool:
        columns = (seeds, [options.copies] * len(seeds), [trace] * len(seeds))
        runs = list(pool.map(run_day, *columns))
    print(f"\n{table(runs)}\n")
    day = DailyLoad(_DAY_SECONDS, options.copies)
    print(f"plotted {plot_day(runs[0].outcomes, day, options.plots)}")
    print(f"{time.monotonic() - start:.0f} s in all")
    print(json_line(runs))


def run_day(seed: int, copies: int, trace: Path) -> DayRuns:
    """Run every rule on one day."""
    requests = read_trace(trace)
    day = DailyLoad(_DAY_SECONDS, copies)
    peak = make_day(requests, DailyLoad(_PEAK_SECONDS, copies, peak_to_trough=1.0), seed)
    replicas = _smallest(peak, seed, guess=4 * copies)
    arrivals = make_day(requests, day, seed)
    outcomes: dict[str, ScaledOutcome] = {}
    for name in RULES:
        first = replicas if name == "static" else max(2, replicas // 3)
        scaled = ScaledCell(_cell(first, seed), _DAY_SECONDS, _START_SECONDS)
        limit = _P95_RATIO_MAX * outcomes["static"].ttft_p95 if outcomes else 0.0
        rule = _rule(name, day, replicas, limit)
        outcomes[name] = run_scaled(scaled, arrivals, rule)
        print(f"ran {name} with seed {seed}, {replicas} replicas at the peak", flush=True)
    return DayRuns(replicas, outcomes)


def _smallest(peak: Sequence[TraceRequest], seed: int, guess: int) -> int:
    """Return the smallest fleet that keeps the p95 at the peak."""

    def is_enough(replicas: int) -> bool:
        flights = run_cell(_cell(replicas, seed), peak)
        return figures_of(flights, _WARM_SECONDS).ttft_p95 <= _PEAK_P95_SECONDS

    if is_enough(guess):
        while is_enough(guess - 1):
            guess -= 1
        return guess
    while not is_enough(guess + 1):
        guess += 1
    return guess + 1


def table(runs: Sequence[DayRuns]) -> str:
    """Means over the seeds, beside the fixed size; what was not reached is bold."""
    lines = [
        "| rule | engine-hours | of the fixed size's | first token p50 / p95 s "
        "| p95 of the fixed size's | cache hits | starts |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name in RULES:
        mean = means(runs, name)
        hours, p95 = f"{mean['hours_ratio']:.3f}", f"{mean['p95_ratio']:.2f}"
        if name == "penstock":
            hours = hours if mean["hours_ratio"] <= _HOURS_RATIO_MAX else f"**{hours}**"
            p95 = p95 if mean["p95_ratio"] <= _P95_RATIO_MAX else f"**{p95}**"
        lines.append(
            f"| {name} | {mean['hours']:.1f} | {hours} | {mean['p50']:.2f} / {mean['p95']:.2f} "
            f"| {p95} | {mean['hit']:.3f} | {mean['starts']:.0f} |"
        )
    return "\n".join(lines)


def json_line(runs: Sequence[DayRuns]) -> str:
    ours = means(runs, "penstock")
    figures = {
        "gpu_hours_ratio": round(ours["hours_ratio"], 3),
        "ttft_p95_ratio": round(ours["p95_ratio"], 3),
        "keda_gpu_hours_ratio": round(means(runs, "keda")["hours_ratio"], 3),
        "keda_ttft_p95_ratio": round(means(runs, "keda")["p95_ratio"], 3),
        "oracle_gpu_hours_ratio": round(means(runs, "oracle")["hours_ratio"], 3),
        "oracle_ttft_p95_ratio": round(means(runs, "oracle")["p95_ratio"], 3),
        "static_replicas": round(sum(run.replicas for run in runs) / len(runs), 1),
        "seeds": len(runs),
    }
    return msgspec.json.encode(figures).decode()


def means(runs: Sequence[DayRuns], name: str) -> Mapping[str, float]:
    rows = [(run.outcomes[name], run.outcomes["static"]) for run in runs]
    figures = [
        {
            "hours": own.engine_hours,
            "hours_ratio": own.engine_hours / fixed.engine_hours,
            "p50": own.ttft_p50,
            "p95": own.ttft_p95,
            "p95_ratio": own.ttft_p95 / fixed.ttft_p95,
            "hit": own.hit,
            "starts": float(own.starts),
        }
        for own, fixed in rows
    ]
    return {key: sum(each[key] for each in figures) / len(figures) for key in figures[0]}


def _cell(replicas: int, seed: int) -> Cell:
    return Cell(
        rule=PENSTOCK,
        replicas=replicas,
        speed_up=1.0,
        gateways=_GATEWAYS,
        knowledge=CellKnowledge.SHARED,
        seed=seed,
    )


def _rule(name: str, day: DailyLoad, replicas: int, p95_max: float) -> ScaleRule:
    high = replicas + replicas // 3
    if name == "static":
        return static(replicas)
    if name == "oracle":
        return oracle(day, replicas, _START_SECONDS)
    if name == "keda":
        return KedaRule(by_replica=_KEDA_IN_FLIGHT, high=high)
    return our_rule(
        high=high,
        first_token_p95_ms=1000 * p95_max,
        cooldown_seconds=_COOLDOWN_SECONDS,
        start_seconds=_START_SECONDS,
    )


if __name__ == "__main__":
    main()
