"""What flex work costs those who want an answer now, and what it fills, on 100 simulated replicas.

`python benchmarks/flex_fleet.py [--replicas N] [--seeds N] [--plots DIR]` runs the very code of
penstock.routing and penstock.puller.headroom on the same arrivals with and without a deep queue of
jobs, then floods bare engines with what was served. It prints a table, draws a plot and ends with
JSON: the worst of all loads, for the stream of prompts and for agents.
"""

import argparse
import os
import platform
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import msgspec

from fleet_simulator.engine_constants import EngineConstants
from flex_fleet_plot import plot_tokens
from flex_fleet_runs import LOADS, SHAPES, Pair, run_pair

_ROOT = Path(__file__).parent.parent
_PROCESSES = 2
_TTFT_MAX = 1.10
_THROUGHPUT_MIN = 0.90

Results = Mapping[tuple[str, int], Pair]


def main() -> None:
    parser = argparse.ArgumentParser(description="Flex work behind live requests, simulated.")
    parser.add_argument("--replicas", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--plots", type=Path, default=_ROOT / "docs" / "plots")
    options = parser.parse_args()
    start = time.monotonic()
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores, ", end="")
    print(f"{platform.system()} {platform.release()}, Python {platform.python_version()}")
    print(f"{options.replicas} engines, assumed: {EngineConstants().described()}")
    for name, shape in SHAPES.items():
        print(f"{name}: {shape.described()}")
    results = run_all(options.replicas, range(1, options.seeds + 1))
    print(f"\n{table(results)}\n\nplotted {plot_tokens(results, options.plots)}")
    print(f"{time.monotonic() - start:.0f} s in all")
    print(json_line(results))


def run_all(replicas: int, seeds: Sequence[int]) -> Results:
    """The means over the seeds, two runs at a time."""
    found: dict[tuple[str, int], list[Pair]] = defaultdict(list)
    # The longest first, so that no process is left alone with one of them at the end.
    jobs = list(product(SHAPES, reversed(LOADS), seeds))
    with ProcessPoolExecutor(_PROCESSES, get_context("spawn")) as pool:
        columns = list(zip(*jobs, strict=True))
        pairs = pool.map(run_pair, *columns, [replicas] * len(jobs))
        for (shape, load, _), pair in zip(jobs, pairs, strict=True):
            found[shape, load].append(pair)
            print(f"ran {shape} at {load} %", flush=True)
    return {key: _mean(rows) for key, rows in found.items()}


def table(results: Results) -> str:
    """What was not reached is bold."""
    lines = [
        "| live traffic, load | TTFT p50 / p95 s without flex | with flex "
        f"| p95 ratio (≤ {_TTFT_MAX:.2f}) | throughput ratio (≥ {_THROUGHPUT_MIN:.2f}) "
        "| without flex | tokens / engine-second | without flex | cache hits | without flex "
        "| jobs/s | handed back |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for (shape, load), pair in sorted(results.items()):
        ttft, throughput = f"{pair.ttft_p95_ratio:.2f}", f"{pair.throughput:.2f}"
        if pair.ttft_p95_ratio > _TTFT_MAX:
            ttft = f"**{ttft}**"
        if pair.throughput < _THROUGHPUT_MIN:
            throughput = f"**{throughput}**"
        lines.append(
            f"| {shape} {load} % | {pair.p50_without:.3f} / {pair.p95_without:.3f} "
            f"| {pair.p50:.3f} / {pair.p95:.3f} | {ttft} | {throughput} "
            f"| {pair.throughput_without:.2f} | {pair.tokens:,.0f} | {pair.tokens_without:,.0f} "
            f"| {pair.hit:.3f} | {pair.hit_without:.3f} | {pair.jobs_per_second:.0f} "
            f"| {pair.handed_back_share:.1%} |"
        )
    return "\n".join(lines)


def json_line(results: Results) -> str:
    """The worst load of each shape, and which that is; of the prompts by the plain names."""
    figures: dict[str, float] = {}
    for shape in SHAPES:
        prefix = "" if shape == "prompts" else f"{shape}_"
        rows = {load: pair for (name, load), pair in results.items() if name == shape}
        slow = max(rows, key=lambda load: rows[load].ttft_p95_ratio)
        thin = min(rows, key=lambda load: rows[load].throughput)
        figures[f"{prefix}ttft_p95_ratio"] = round(rows[slow].ttft_p95_ratio, 3)
        figures[f"{prefix}throughput_ratio"] = round(rows[thin].throughput, 3)
        figures[f"{prefix}ttft_worst_load"] = slow
        figures[f"{prefix}throughput_worst_load"] = thin
    return msgspec.json.encode(figures).decode()


def _mean(rows: Sequence[Pair]) -> Pair:
    names = Pair.__struct_fields__
    return Pair(*(sum(getattr(row, name) for row in rows) / len(rows) for name in names))


if __name__ == "__main__":
    main()
