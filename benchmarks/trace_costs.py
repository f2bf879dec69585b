"""Counts what traces add to a request, in instructions of the compiled package.

`python benchmarks/trace_costs.py [--rounds 3] [--functions]`, on a worker of `counted_worker.py`,
where every request is traced and every trace is written. The last line is JSON:

- `off_instructions_added`: a small request where nothing is traced, beside the same on a package
  out of which `without_traces.patch` takes the tests for traces.
- `small_instructions_ratio`: a small request that is traced, over one that is not.
- `chunk_instructions_ratio`: one more relayed chunk of a traced stream, over one of another.

Posting to a collector is left out: one post has up to 512 traces.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec
from deploy.native.build import build as compile_package

from candidates import start_upstream, stop_process
from compiled_package import cache_folder, compiled_folder
from counted_worker import SMALL, Count, Tell, Worker, added, print_functions
from native_programs import build
from needs import COMPILED, LOAD, require
from quiet_worker import Kind
from without_contracts import copy_checkout, take_out

PATCH: Final = Path(__file__).with_name("without_traces.patch")
_LIMITS: Final = {
    "off_instructions_added": 60,
    "small_instructions_ratio": 1.05,
    "chunk_instructions_ratio": 1.0,
}
_KINDS: Final = {"off": Kind(), "on": Kind(is_traced=True)}


class Figures(msgspec.Struct):
    """What traces cost in one round, or at the median of all."""

    off_instructions_added: float
    small_instructions_ratio: float
    chunk_instructions_ratio: float


def without_traces_folder() -> Path:
    """What a child gets as PYTHONPATH; compiled on first use, which takes minutes."""
    with tempfile.TemporaryDirectory(prefix="penstock-without-") as folder:
        copy_checkout(Path(folder))
        take_out(Path(folder), PATCH)
        return compile_package(Path(folder), cache_folder() / "without-traces")


def measured(worker: Worker, bare: Worker, tell: Tell) -> Figures:
    """Measure all kinds in turn."""
    off, on = worker.measure("off", SMALL), worker.measure("on", SMALL)
    off_bare = bare.measure("off", SMALL)
    for name, count in (("off", off), ("on", on), ("off without tests", off_bare)):
        tell(name, count)
    chunk_off, chunk_on = worker.chunk("off", _untold), worker.chunk("on", _untold)
    print(f"small {off.each:,.0f}, traced {on.each:,.0f}", end="; ")
    print(f"chunk {chunk_off:,.0f}, traced {chunk_on:,.0f}", flush=True)
    return Figures(added(off, off_bare), on.each / off.each, chunk_on / chunk_off)


def _untold(_kind: str, _count: Count) -> None:
    """The functions of a chunk are not printed."""


def run(rounds: int, tell: Tell) -> Figures:
    """Start both workers side by side, and return the medians of some rounds."""
    packages = [(compiled_folder(), _KINDS), (without_traces_folder(), {"off": Kind()})]
    with tempfile.TemporaryDirectory(prefix="penstock-traces-") as name:
        folder = Path(name)
        build(folder)
        upstream, ports = start_upstream(folder / "upstream", has_short_texts=True)
        workers = list[Worker]()
        try:
            for number, (package, kinds) in enumerate(packages):
                workers.append(Worker(package, ports, folder, str(number), kinds))
                workers[-1].warm_up()
            found = [measured(workers[0], workers[1], tell) for _ in range(rounds)]
        finally:
            for worker in workers:
                worker.stop()
            stop_process(upstream)
    return Figures(
        off_instructions_added=round(statistics.median(f.off_instructions_added for f in found)),
        small_instructions_ratio=round(
            statistics.median(f.small_instructions_ratio for f in found), 3
        ),
        # To a hundredth, within which the same chunk costs the same.
        chunk_instructions_ratio=round(
            statistics.median(f.chunk_instructions_ratio for f in found), 2
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Count what traces add, in instructions.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--functions", action="store_true", help="print each function's cost")
    options = parser.parse_args()
    require({*LOAD, *COMPILED, "valgrind", "git"})
    figures = run(options.rounds, print_functions if options.functions else _untold)
    print(msgspec.json.encode(figures).decode(), flush=True)
    if faults := [
        f"{name}: {getattr(figures, name)} is above {limit}"
        for name, limit in _LIMITS.items()
        if getattr(figures, name) > limit
    ]:
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
