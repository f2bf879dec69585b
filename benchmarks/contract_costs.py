"""Counts what contracts add to a request, in instructions of the compiled package.

`python benchmarks/contract_costs.py [--rounds 5] [--functions] [--long-texts]` runs
`quiet_worker.py` in valgrind's callgrind, a worker in which nothing but requests costs
instructions, under the bench's own load on one connection: the same request costs the same within a
tenth of a percent. Rounds go through all kinds of requests in turn, and each figure is the median
of its rounds.

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
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from callgrind import Profile, read_profile
from candidates import (
    CANDIDATE_CORE,
    LOAD_CORE,
    Candidate,
    free_ports_in_a_row,
    start_pinned,
    start_upstream,
    stop_process,
    wait_ready,
)
from compiled_package import compiled_folder
from native_programs import Report, build, run_load
from needs import COMPILED, LOAD, require
from quiet_worker import SECRET
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
_CONTRACTS: Final = {"none": "", "labels": _LABELS, "tools": _LABELS + _TOOLS}
_WORKFLOW: Final = ["-H", "x-penstock-workflow: code-review"]
_ONE: Final = ["-c", "1", "-b", "1900"]
_SMALL: Final = [*_ONE, "-n", "400"]
# Of text, a chunk every 8 ms: slow enough that each is read by itself, also in callgrind.
_STREAM: Final = [*_ONE, *_WORKFLOW, "-s", "-i", "8000"]
_LONG: Final = [*_STREAM, "-n", "4", "-t", "200"]
_SHORT: Final = [*_STREAM, "-n", "4", "-t", "20"]
_WORKER: Final = Path(__file__).with_name("quiet_worker.py")
_VALGRIND: Final = ("valgrind", "--tool=callgrind", "--instr-atstart=no")
_SECONDS_MAX: Final = 120.0
_COMPILED: Final = "CPyDef_"
# Of functions without a name, which differs from start to start.
_NAMELESS: Final = "0x"
_READ: Final = "CPyDef_attempt___Attempt___on_read_end"
# A stream's first and last events come together; how many more may, and how often it is tried.
_READS_MIN: Final = 0.97
_TRIES: Final = 4
_ROWS_MAX: Final = 40


class Worker:
    """One quiet worker in callgrind, with a port for each contract."""

    def __init__(self, package: Path, upstreams: list[int], folder: Path, name: str) -> None:
        self._programs = folder
        self._out = folder / f"callgrind-{name}"
        self._dumps = 0
        first = free_ports_in_a_row(len(_CONTRACTS))
        self._ports = {contract: first + at for at, contract in enumerate(_CONTRACTS)}
        words = [",".join(map(str, upstreams))]
        for contract, text in _CONTRACTS.items():
            file = folder / f"{contract}.toml"
            file.write_text(text)
            words.append(f"{self._ports[contract]}={file}")
        command = [*_VALGRIND, f"--callgrind-out-file={self._out}", sys.executable, str(_WORKER)]
        # The same order of sets in each run.
        settings = {"PYTHONPATH": str(package), "PYTHONHASHSEED": "0"}
        environment = {**os.environ, **settings}  # noqa: TID251 - a child's settings
        self._process = start_pinned([*command, *words], CANDIDATE_CORE, environment)

    def warm_up(self, contracts: list[str]) -> None:
        for contract in contracts:
            wait_ready(self._candidate(contract))
            self._load(contract, [*_SMALL, *_WORKFLOW])
            self._load(contract, _SHORT)

    def measure(self, contract: str, arguments: list[str]) -> "Count":
        """Count one load by itself."""
        pid = str(self._process.pid)
        _control("-z", pid)
        _control("-i", "on", pid)
        report = self._load(contract, arguments)
        _control("-i", "off", pid)
        _control("-d", pid)
        self._dumps += 1
        # callgrind numbers its dumps.
        dump = self._out.with_suffix(f".{self._dumps}")
        with dump.open() as lines:
            profile = read_profile(lines)
        dump.unlink()
        return Count(profile, report.requests, report.events)

    def stop(self) -> None:
        stop_process(self._process)

    def _load(self, contract: str, arguments: list[str]) -> Report:
        words = [*self._candidate(contract).load_arguments(), *arguments]
        return run_load(self._programs / "loadgen", words, _SECONDS_MAX, LOAD_CORE)

    def _candidate(self, contract: str) -> Candidate:
        return Candidate("quiet", self._ports[contract], self._process, key=SECRET)


class Count(msgspec.Struct):
    """The profile of some requests, and how many requests and events they were."""

    profile: Profile
    requests: int
    events: int

    @property
    def each(self) -> float:
        return self.profile.total / self.requests

    @property
    def reads(self) -> int:
        """How often events were read: several at once cost less, and say nothing of a chunk."""
        return self.profile.calls.get(_READ, 0)


def added(count: Count, bare: Count) -> float:
    """Return what a request costs more than on the other package, by functions and calls."""
    return sum(
        _own_added(name, count, bare)
        for name in {*count.profile.own, *bare.profile.own}
        if not name.startswith(_NAMELESS)
    )


def _own_added(name: str, count: Count, bare: Count) -> float:
    profiles = ((count.profile, count.requests), (bare.profile, bare.requests))
    if name.startswith(_COMPILED):
        own, own_bare = (profile.own.get(name, 0) / requests for profile, requests in profiles)
        return own - own_bare
    calls = sum(profile.calls.get(name, 0) for profile, _ in profiles)
    if not calls:
        return 0.0
    cost = sum(profile.own.get(name, 0) for profile, _ in profiles) / calls
    made, made_bare = (profile.calls.get(name, 0) / requests for profile, requests in profiles)
    return (made - made_bare) * cost


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


def measured(
    worker: Worker, bare: Worker, rounds: int, tell: Callable[[str, Count], None]
) -> list[Round]:
    """Measure all kinds in turn, so many times."""

    def of(whose: Worker, contract: str, arguments: list[str]) -> Count:
        count = whose.measure(contract, arguments)
        tell(f"{contract}{' without tests' if whose is bare else ''} {arguments[-2:]}", count)
        return count

    def chunk(contract: str) -> float:
        for _ in range(_TRIES):
            long, short = of(worker, contract, _LONG), of(worker, contract, _SHORT)
            events = long.events - short.events
            if long.reads - short.reads >= _READS_MIN * events:
                return (long.profile.total - short.profile.total) / events
        raise SystemExit("This machine is too busy: chunks of a stream are read several at once.")

    found = list[Round]()
    for number in range(1, rounds + 1):
        small, small_bare = of(worker, "none", _SMALL), of(bare, "none", _SMALL)
        each = Round(
            small=small.each,
            added=added(small, small_bare),
            named=of(worker, "none", [*_SMALL, *_WORKFLOW]).each,
            labelled=of(worker, "labels", [*_SMALL, *_WORKFLOW]).each,
            chunk=chunk("none"),
            chunk_tools=chunk("tools"),
        )
        found.append(each)
        values = {name: round(value) for name, value in msgspec.structs.asdict(each).items()}
        print(f"round {number} of {rounds}: {values}", flush=True)
    return found


def run(rounds: int, tell: Callable[[str, Count], None], *, has_short_texts: bool) -> list[Round]:
    """Start both workers side by side, and measure."""
    packages = {"with": compiled_folder(), "without": without_contracts_folder()}
    with tempfile.TemporaryDirectory(prefix="penstock-contracts-") as name:
        folder = Path(name)
        build(folder)
        upstream, ports = start_upstream(folder / "upstream", has_short_texts=has_short_texts)
        workers = list[Worker]()
        try:
            workers += [Worker(path, ports, folder, name) for name, path in packages.items()]
            workers[0].warm_up(list(_CONTRACTS))
            workers[1].warm_up(["none"])
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


def _control(*arguments: str) -> None:
    subprocess.run(["callgrind_control", *arguments], check=True, capture_output=True)


def _print_functions(kind: str, count: Count) -> None:
    profile, units = count.profile, count.requests
    print(f"{kind}: with calls | own | calls, of each request")
    for name in sorted(profile.own, key=lambda name: -profile.own[name])[:_ROWS_MAX]:
        cost, own = profile.inclusive[name] / units, profile.own[name] / units
        print(f"{cost:10,.0f} {own:8,.0f} {profile.calls[name] / units:7.2f} {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Count what contracts add, in instructions.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--functions", action="store_true", help="print each function's cost")
    parser.add_argument("--long-texts", action="store_true", help="17 bytes a chunk instead of 5")
    options = parser.parse_args()
    require({*LOAD, *COMPILED, "valgrind", "git"})
    tell = _print_functions if options.functions else lambda _, __: None
    figures = medians(run(options.rounds, tell, has_short_texts=not options.long_texts))
    print(msgspec.json.encode(figures).decode(), flush=True)
    if faults := above(figures):
        sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
