"""Counts what contracts add to a request, in instructions of the compiled package.

`python benchmarks/contract_costs.py [--rounds 5] [--functions] [--long-texts]` goes through all
kinds of requests in turn, on a worker of `counted_worker.py`; each figure is the median of its
rounds.

- `none_instructions_added`: a small request where no contract is in force, beside the same on a
  package out of which `without_contracts.patch` takes every test for contracts. What our compiled
  functions cost by themselves is subtracted; of Python's and other libraries' functions, calls are,
  each at its average cost. The same call of an allocator costs more or less with where memory lies,
  and 300 calls of it would hide 300 instructions.
- `labels_only_instructions_ratio`: a small request under a contract of a name and nothing else,
  over the same request on a worker without contracts. Both name their workflow in a header.
- `tools_chunk_instructions_ratio`: one more relayed chunk of a text stream under `[tools]`, over
  one without contracts. What a stream costs once is left out: streams of two lengths are
  subtracted. A chunk's text is five bytes, as a token of English is; with `--long-texts` it is
  the 17 that other benchmarks have, which tell their time.

They leave out the kernel, so that time would grow by less. Prints last one line of JSON, and fails
where a figure is above its limit.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from candidates import start_upstream, stop_process
from compiled_package import compiled_folder
from counted_worker import (
    SMALL,
    WORKFLOW,
    Count,
    Tell,
    Worker,
    added,
    print_functions,
)
from native_programs import build
from needs import COMPILED, LOAD, require
from quiet_worker import Kind
from without_contracts import without_contracts_folder

_LIMITS: Final = {
    "none_instructions_added": 300,
    "labels_only_instructions_ratio": 1.04,
    "tools_chunk_instructions_ratio": 1.03,
}
_LABELS: Final = 'schema = 1\nname = "code-review"\n'
_TOOLS: Final = """
[tools]
default = "deny"
allow = ["read_*", "grep", "mcp__github__*", "web_search*"]
deny = ["read_secrets", "mcp__github__merge_*"]
text_calls = "deny"
"""
_KINDS: Final = {"none": Kind(), "labels": Kind(_LABELS), "tools": Kind(_LABELS + _TOOLS)}


class Round(msgspec.Struct):
    """What each kind of request cost in one round, in instructions."""

    small: float
    added: float
    named: float
    labelled: float
    chunk: float
    chunk_tools: float

    def figures(self) -> dict[str, float]:
        return {
            "none_instructions_added": self.added,
            "labels_only_instructions_ratio": self.labelled / self.named,
            "tools_chunk_instructions_ratio": self.chunk_tools / self.chunk,
        }


def measured(worker: Worker, bare: Worker, rounds: int, tell: Tell) -> list[Round]:
    """Measure all kinds in turn, so many times."""

    def of(whose: Worker, kind: str, arguments: list[str]) -> Count:
        count = whose.measure(kind, arguments)
        tell(f"{kind}{' without tests' if whose is bare else ''} {arguments[-2:]}", count)
        return count

    found = list[Round]()
    for number in range(1, rounds + 1):
        small, small_bare = of(worker, "none", SMALL), of(bare, "none", SMALL)
        each = Round(
            small=small.each,
            added=added(small, small_bare),
            named=of(worker, "none", [*SMALL, *WORKFLOW]).each,
            labelled=of(worker, "labels", [*SMALL, *WORKFLOW]).each,
            chunk=worker.chunk("none", tell).each,
            chunk_tools=worker.chunk("tools", tell).each,
        )
        found.append(each)
        values = {name: round(value) for name, value in msgspec.structs.asdict(each).items()}
        print(f"round {number} of {rounds}: {values}", flush=True)
    return found


def run(rounds: int, tell: Tell, *, has_short_texts: bool) -> list[Round]:
    """Start both workers side by side, and measure."""
    packages = {"with": compiled_folder(), "without": without_contracts_folder()}
    kinds = {"with": _KINDS, "without": {"none": Kind()}}
    with tempfile.TemporaryDirectory(prefix="penstock-contracts-") as name:
        folder = Path(name)
        build(folder)
        upstream, ports = start_upstream(folder / "upstream", has_short_texts=has_short_texts)
        workers = list[Worker]()
        try:
            for which, package in packages.items():
                workers.append(Worker(package, ports, folder, which, kinds[which]))
                workers[-1].warm_up()
            return measured(workers[0], workers[1], rounds, tell)
        finally:
            for worker in workers:
                worker.stop()
            stop_process(upstream)


def medians(rounds: list[Round]) -> dict[str, float]:
    """Return the median of each figure over the rounds."""
    figures = [each.figures() for each in rounds]
    found = {name: statistics.median(each[name] for each in figures) for name in figures[0]}
    return {name: round(value, 4 if "ratio" in name else None) for name, value in found.items()}


def above(figures: dict[str, float]) -> list[str]:
    """What is above its limit, in words."""
    return [
        f"{name}: {figures[name]} is above {limit}"
        for name, limit in _LIMITS.items()
        if figures[name] > limit
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Count what contracts add, in instructions.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--functions", action="store_true", help="print each function's cost")
    parser.add_argument("--long-texts", action="store_true", help="17 bytes a chunk instead of 5")
    options = parser.parse_args()
    require({*LOAD, *COMPILED, "valgrind", "git"})
    tell = print_functions if options.functions else lambda _, __: None
    figures = medians(run(options.rounds, tell, has_short_texts=not options.long_texts))
    print(msgspec.json.encode(figures).decode(), flush=True)
    if faults := above(figures):
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
