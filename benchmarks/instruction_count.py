"""Instructions per request, function by function: the same on a busy machine as on a quiet one.

`python benchmarks/instruction_count.py [--only small] [--seconds 6]` runs the compiled gateway in
valgrind's callgrind, under the bench's own load. Time on a shared machine moves by a quarter; these
counts move by a percent, so they tell what a change is worth. They say nothing of the kernel, and
what runs by the clock weighs too much: under callgrind requests are fifty times slower.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from callgrind import Profile, read_profile
from candidates import LOAD_CORE, Candidate, start_upstream, stop_process
from native_programs import build, run_load
from penstock_candidate import start_penstock
from scenarios import SCENARIOS, Scenario, units_of

_WARM_UP_SECONDS: Final = 4.0
_ROWS_MAX: Final = 100
_COMPILED: Final = "CPyDef_"


def count(scenario: Scenario, folder: Path, seconds: float) -> tuple[Profile, int]:
    """One gateway, looked at after it is warm; what was counted, and for how many units."""
    build(folder)
    upstream, ports = start_upstream(folder / "upstream")
    try:
        out = folder / "callgrind"
        under = ["valgrind", "--tool=callgrind", "--trace-children=yes", "--instr-atstart=no"]
        gateway = start_penstock(ports, under=[*under, f"--callgrind-out-file={out}"])
        try:
            _load(scenario, gateway, folder, _WARM_UP_SECONDS)
            assert gateway.process is not None, "it was started just now"
            pid = str(gateway.process.pid)
            _control("-i", "on", pid)
            units = _load(scenario, gateway, folder, seconds)
            _control("-i", "off", pid)
            _control("-d", pid)
        finally:
            gateway.stop()
    finally:
        stop_process(upstream)
    with out.with_suffix(".1").open() as lines:
        return read_profile(lines), units


def _load(scenario: Scenario, gateway: Candidate, folder: Path, seconds: float) -> int:
    arguments = [*gateway.load_arguments(), *scenario.arguments]
    return units_of(scenario, run_load(folder / "loadgen", arguments, seconds, LOAD_CORE))


def _control(*arguments: str) -> None:
    subprocess.run(["callgrind_control", *arguments], check=True, capture_output=True)


def _table(profile: Profile, units: int) -> list[str]:
    rows = [f"{profile.total / units:,.0f} instructions each, of {units}", "", "with calls |  own"]
    ours = [name for name in profile.inclusive if name.startswith(_COMPILED)]
    for name in sorted(ours, key=lambda name: -profile.inclusive[name])[:_ROWS_MAX]:
        cost, own = profile.inclusive[name] / units, profile.own[name] / units
        calls = profile.calls[name] / units
        rows.append(f"{cost:10,.0f} {own:6,.0f} {calls:6.2f} times  {name.removeprefix(_COMPILED)}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Count instructions, function by function.")
    parser.add_argument("--only", default="small", help="one of the bench's scenarios")
    parser.add_argument("--seconds", type=float, default=6.0)
    options = parser.parse_args()
    scenario = {each.name: each for each in SCENARIOS}[options.only]
    with tempfile.TemporaryDirectory(prefix="penstock-count-") as folder:
        profile, units = count(scenario, Path(folder), options.seconds)
    sys.stdout.write("\n".join(_table(profile, units)) + "\n")


if __name__ == "__main__":
    main()
