"""Counts instructions per request or chunk: the same on a busy machine as on a quiet one.

`python benchmarks/instruction_count.py [--only small,chunk] [--seconds 12] [--functions]` runs the
compiled gateway in valgrind's callgrind, under the bench's own load. Time on a shared machine moves
by a quarter; the count of a chunk moves by a percent, of a request by a tenth. They leave out the
kernel, and what runs by the clock weighs too much: under callgrind requests are fifty times slower.

The fewer requests a slow machine makes, the more of them are first turns: so 300 KB has no recorded
count, and the others have room.

Prints last one line of JSON: instructions by scenario. `--gate FILE` fails where a count is above
1.25 times the one in FILE. `--functions` prints what each compiled function costs. `--with-tools`
counts a gateway on which hosted tools are configured.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from callgrind import Dumps, Profile
from candidates import LOAD_CORE, Candidate, start_upstream, stop_process
from native_programs import LoadFailedError, build, run_load
from needs import COMPILED, LOAD, require
from penstock_candidate import start_penstock
from scenarios import AGENT, BODY_300KB, CHUNK, SMALL, Scenario, units_of

_GATE: Final = 1.25
_WARM_UP_SECONDS: Final = 4.0
_ROWS_MAX: Final = 100
_COMPILED: Final = "CPyDef_"
# Streams few and short enough for a gateway that runs in callgrind: all of them must end.
_STREAMS: Final = ["-c", "8", "-t", "50", "-i", "1000"]
_COUNTED: Final = {
    scenario.name: scenario
    for scenario in (
        SMALL,
        msgspec.structs.replace(CHUNK, arguments=["-s", "-b", "1900", *_STREAMS]),
        BODY_300KB,
        msgspec.structs.replace(AGENT, arguments=[*AGENT.arguments, *_STREAMS]),
    )
}
# A sandbox host that no request of these scenarios asks for.
_TOOLS: Final = {
    "PENSTOCK_TOOLS_SANDBOX_HOSTS": '["http://127.0.0.1:9"]',
    "PENSTOCK_TOOLS_SANDBOX_TOKEN_FILE": "/dev/null",
}


class Counted(msgspec.Struct, frozen=True):
    """One scenario: its profile, and how many requests or events the profile is of."""

    profile: Profile
    units: int

    @property
    def instructions(self) -> int:
        return round(self.profile.total / self.units)


def count(
    scenarios: list[Scenario], folder: Path, seconds: float, *, has_tools: bool = False
) -> dict[str, Counted]:
    """Load one gateway with one scenario after the other, each measured once it is warm."""
    build(folder)
    upstream, ports = start_upstream(folder / "upstream")
    dumps = Dumps(folder / "callgrind")
    try:
        more = _TOOLS if has_tools else {}
        gateway = start_penstock(ports, under=dumps.command, more_settings=more)
        try:
            return {
                scenario.name: _measure(scenario, gateway, dumps, folder, seconds)
                for scenario in scenarios
            }
        finally:
            gateway.stop()
    finally:
        stop_process(upstream)


def _measure(
    scenario: Scenario, gateway: Candidate, dumps: Dumps, folder: Path, seconds: float
) -> Counted:
    assert gateway.process is not None, "it was started just now"
    pid = gateway.process.pid
    _load(scenario, gateway, folder, _WARM_UP_SECONDS)
    try:
        with dumps.counting(pid):
            units = _load(scenario, gateway, folder, seconds)
    except LoadFailedError:
        # Under valgrind a gateway is so slow that on a busy machine it may refuse a request.
        with dumps.counting(pid):
            units = _load(scenario, gateway, folder, seconds)
    return Counted(dumps.take(pid), units)


def _load(scenario: Scenario, gateway: Candidate, folder: Path, seconds: float) -> int:
    arguments = [*gateway.load_arguments(), *scenario.arguments]
    return units_of(scenario, run_load(folder / "loadgen", arguments, seconds, LOAD_CORE))


def _functions(counted: Counted) -> list[str]:
    profile, units = counted.profile, counted.units
    rows = ["with calls |  own"]
    ours = [name for name in profile.inclusive if name.startswith(_COMPILED)]
    for name in sorted(ours, key=lambda name: -profile.inclusive[name])[:_ROWS_MAX]:
        cost, own = profile.inclusive[name] / units, profile.own[name] / units
        calls = profile.calls[name] / units
        rows.append(f"{cost:10,.0f} {own:6,.0f} {calls:6.2f} times  {name.removeprefix(_COMPILED)}")
    return rows


def grown(counts: dict[str, int], recorded: dict[str, int]) -> list[str]:
    """What is above the gate, in words; a scenario that was not measured is not judged."""
    return [
        f"{name}: {counts[name]:,} instructions are above {_GATE} x {before:,}"
        for name, before in recorded.items()
        if name in counts and counts[name] > _GATE * before
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Count instructions by scenario and function.")
    every = ",".join(_COUNTED)
    parser.add_argument("--only", default=every, help=f"of {every}")
    parser.add_argument("--seconds", type=float, default=12.0)
    parser.add_argument("--functions", action="store_true", help="print each function's cost")
    parser.add_argument("--with-tools", action="store_true", help="with a sandbox host")
    parser.add_argument("--gate", type=Path, help="JSON with recorded counts to be held")
    options = parser.parse_args()
    if strange := set(options.only.split(",")) - set(_COUNTED):
        parser.error(f"{', '.join(sorted(strange))}: not one of {every}")
    require({*LOAD, *COMPILED, "valgrind"})
    wanted = [_COUNTED[name] for name in options.only.split(",")]
    with tempfile.TemporaryDirectory(prefix="penstock-count-") as folder:
        found = count(wanted, Path(folder), options.seconds, has_tools=options.with_tools)
    for name, counted in found.items():
        print(f"{name}: {counted.instructions:,} instructions each, of {counted.units}")
        if options.functions:
            print("\n".join(_functions(counted)))
    counts = {name: counted.instructions for name, counted in found.items()}
    print(msgspec.json.encode(counts).decode(), flush=True)
    if options.gate is not None:
        recorded = msgspec.json.decode(options.gate.read_bytes(), type=dict[str, int])
        if faults := grown(counts, recorded):
            sys.exit("\n".join(faults))


if __name__ == "__main__":
    main()
