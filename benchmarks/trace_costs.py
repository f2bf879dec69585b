"""Counts what traces add to a request, in instructions of the compiled package.

`python benchmarks/trace_costs.py [--rounds 3] [--functions]`, on workers of `counted_worker.py`.
Each has a process of its own, because the loop that writes traces runs by the clock. The last line
is JSON:

- `off_instructions_added`: a small request where nothing is traced, beside the same on a package
  out of which `without_traces.patch` takes the tests for traces.
- `path_instructions_ratio`: a small request that is traced, over one that is not, without the
  writing of its spans, which is done beside the path.
- `small_instructions_ratio`: the same with that writing.
- `chunk_instructions_ratio`: one more relayed chunk of a traced stream, over one of another, by
  functions and calls. The loop that writes is left out: it runs by the clock, and a stream takes
  time.

Posting to a collector is left out: one post has up to 512 traces.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
from deploy.native.build import build as compile_package

from candidates import start_upstream, stop_process
from compiled_package import cache_folder, compiled_folder
from counted_worker import SMALL, Count, Tell, Worker, added, print_functions
from native_programs import build
from needs import COMPILED, LOAD, require
from quiet_worker import NOTED, TRACED, Kind
from without_contracts import copy_checkout, take_out

PATCH: Final = Path(__file__).with_name("without_traces.patch")
_LIMITS: Final = {
    "off_instructions_added": 60,
    "path_instructions_ratio": 1.05,
    "small_instructions_ratio": 1.05,
    "chunk_instructions_ratio": 1.0,
}
_OFF, _PATH, _ON, _BARE = "off", "on the path", "on", "off without tests"
_KINDS: Final = {_OFF: Kind(), _PATH: Kind(tracing=NOTED), _ON: Kind(tracing=TRACED)}


class Figures(msgspec.Struct):
    """What traces cost in one round, or at the median of all."""

    off_instructions_added: float
    path_instructions_ratio: float
    small_instructions_ratio: float
    chunk_instructions_ratio: float


def without_traces_folder() -> Path:
    """What a child gets as PYTHONPATH; compiled on first use, which takes minutes."""
    with tempfile.TemporaryDirectory(prefix="penstock-without-") as folder:
        copy_checkout(Path(folder))
        take_out(Path(folder), PATCH)
        return compile_package(Path(folder), cache_folder() / "without-traces")


def measured(workers: Mapping[str, Worker], tell: Tell) -> Figures:
    """Measure all kinds in turn."""
    small = {name: worker.measure(name, SMALL) for name, worker in workers.items()}
    for name, count in small.items():
        tell(name, count)
    chunk = {name: workers[name].chunk(name, _untold) for name in (_OFF, _PATH)}
    print("; ".join(f"{name} {count.each:,.0f}" for name, count in small.items()), end="; ")
    print(f"chunk {chunk[_OFF].each:,.0f}, traced {chunk[_PATH].each:,.0f}", flush=True)
    off = small[_OFF].each
    # As what no traces cost: the same function of two processes may cost a percent more.
    chunk_added = added(chunk[_PATH], chunk[_OFF])
    return Figures(
        added(small[_OFF], small[_BARE]),
        small[_PATH].each / off,
        small[_ON].each / off,
        1 + chunk_added / chunk[_OFF].each,
    )


def _untold(_kind: str, _count: Count) -> None:
    """The functions of a chunk are not printed."""


def run(rounds: int, tell: Tell) -> Figures:
    """Start the workers side by side, and return the medians of some rounds."""
    whole = compiled_folder()
    packages = {name: (whole, kind) for name, kind in _KINDS.items()}
    packages[_BARE] = (without_traces_folder(), Kind())
    with tempfile.TemporaryDirectory(prefix="penstock-traces-") as name:
        folder = Path(name)
        build(folder)
        upstream, ports = start_upstream(folder / "upstream", has_short_texts=True)
        workers = dict[str, Worker]()
        try:
            for number, (kind_name, (package, kind)) in enumerate(packages.items()):
                worker = Worker(package, ports, folder, str(number), {kind_name: kind})
                workers[kind_name] = worker
                worker.warm_up()
            found = [measured(workers, tell) for _ in range(rounds)]
        finally:
            for worker in workers.values():
                worker.stop()
            stop_process(upstream)
    return Figures(
        off_instructions_added=round(statistics.median(f.off_instructions_added for f in found)),
        path_instructions_ratio=round(
            statistics.median(f.path_instructions_ratio for f in found), 3
        ),
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
