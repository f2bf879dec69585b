"""Where each microsecond goes: the gateway's CPU by room, for four kinds of traffic.

`python benchmarks/room_profile.py [--seconds 10]` measures the CPU of a request or a chunk as
overhead.py does, then looks at the gateway with py-spy under the same load and divides that CPU by
the shares. A sample belongs to the room of the innermost frame that is ours, with all that this
calls. Prints a table in Markdown, and last one line of JSON. Needs gcc and leave to trace.
"""

import argparse
import re
import statistics
import subprocess
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from candidates import Candidate, start_upstream, stop_process
from compiled_package import cache_folder, rooms_by_module
from figures import machine
from native_programs import build
from needs import COMPILED, LOAD, require
from peers import installed
from penstock_candidate import start_penstock
from scenarios import AGENT, BODY_1MB, CHUNK, SMALL, Scenario, run_once

_SPY: Final = "py-spy==0.4.3"
# Each look with native frames stops the gateway for almost 2 ms: at 500 a second it did an eighth
# of its work, and what it does by the clock seemed to cost eight times as much.
_LOOKS_PER_SECOND: Final = 100
_COST_RUNS: Final = 3
_COST_SECONDS: Final = 2.0
_ATTACH_SECONDS: Final = 3.0
_SCENARIOS: Final = (SMALL, CHUNK, BODY_1MB, AGENT)

SYSTEM_CALLS: Final = "system calls, also those in rooms"
_KERNEL: Final = "no room: system calls"
_PYTHON: Final = "no room: Python and its library"
_LIBRARIES: Final = {
    "uvloop": "no room: uvloop",
    "loop.c": "no room: uvloop",
    "uv_": "no room: uvloop",
    "httptools": "no room: httptools",
    "llhttp": "no room: httptools",
    "uvicorn": "no room: uvicorn",
    "psycopg": "no room: psycopg",
}
_ROOM: Final = re.compile(r"\(penstock/(\w+)(?:\.py|/)")
_COMPILED: Final = re.compile(r"CPy(?:Def|Py)_(\w+?)___")
_COMPILED_ROOMS: Final = rooms_by_module()
_LOOP: Final = ("run_until_complete (", "Runner.run (")
_WAITS: Final = ("serve_forever", "Selector.select", "pthread_cond_", "sem_", "futex")
_CALLS: Final = re.compile(
    r"_*(p?readv?|recv\w*|p?writev?|pwrite64|send\w*|epoll_\w+|syscall|accept4?|connect|socket|close"
    r"|shutdown|setsockopt|f(data)?sync|m(un)?map(64)?|madvise) \(libc\.so"
)


def rows_of(stack: str) -> list[str]:
    """The rows of the table that a stack counts for, none if its thread only waits."""
    frames = stack.split(";")
    loops = [index for index, frame in enumerate(frames) if frame.startswith(_LOOP)]
    if not loops and any(wait in stack for wait in _WAITS):
        return []
    # What called the event loop has the command and the server in it, and does nothing.
    inner = frames[loops[-1] + 1 :] if loops else frames
    is_call = _is_system_call(inner)
    rooms = [room for frame in inner if (room := _room(frame))]
    row = rooms[-1] if rooms else _outside(inner, is_call=is_call)
    return [row, SYSTEM_CALLS] if is_call else [row]


def _room(frame: str) -> str | None:
    """The room that a frame of ours is in, be it Python's or C's."""
    if found := _ROOM.search(frame):
        return found[1]
    found = _COMPILED.match(frame)
    return _COMPILED_ROOMS.get(found[1]) if found else None


def _is_system_call(frames: list[str]) -> bool:
    named = [frame for frame in frames if not frame.startswith("0x")]
    return bool(named) and _CALLS.match(named[-1]) is not None


def _outside(frames: list[str], *, is_call: bool) -> str:
    if is_call:
        return _KERNEL
    for frame in reversed(frames):
        for sign, row in _LIBRARIES.items():
            if sign in frame:
                return row
    return _PYTHON


class Profile(msgspec.Struct, frozen=True):
    """Microseconds of each request or chunk, in all and by row."""

    total: float
    rows: dict[str, float]
    samples: int
    # How much of the usual rate was reached while py-spy looked.
    rate_kept: float


def fold(lines: list[str]) -> tuple[Counter[str], int]:
    """Samples by row, and all that count, of py-spy's raw lines."""
    counts: Counter[str] = Counter()
    total = 0
    for line in lines:
        stack, _, count = line.rpartition(" ")
        rows = rows_of(stack)
        total += int(count) if rows else 0
        counts.update(dict.fromkeys(rows, int(count)))
    return counts, total


def look(
    scenario: Scenario, candidate: Candidate, spy: Path, loadgen: Path, seconds: float
) -> Profile:
    """The cost without py-spy, then the shares with it."""
    run_once(scenario, candidate, loadgen, _COST_SECONDS)
    costs = [run_once(scenario, candidate, loadgen, _COST_SECONDS) for _ in range(_COST_RUNS)]
    total = statistics.median(cost.cpu for cost in costs) * 1e6 / scenario.scale
    assert candidate.process is not None
    with tempfile.NamedTemporaryFile(suffix=".raw") as file:
        command = [str(spy), "record", "--native", "--subprocesses"]
        command += ["-p", str(candidate.process.pid), "-r", str(_LOOKS_PER_SECOND)]
        command += ["-d", str(round(seconds)), "-f", "raw", "-o", file.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as spying:
            spied = run_once(scenario, candidate, loadgen, seconds + _ATTACH_SECONDS)
            said, _ = spying.communicate()
        if spying.returncode != 0:
            raise RuntimeError(f"py-spy: {said.decode()}")
        counts, samples = fold(Path(file.name).read_text().splitlines())
    rows = {row: round(total * count / samples, 2) for row, count in counts.most_common()}
    rate = statistics.median(cost.rate for cost in costs)
    return Profile(round(total, 2), rows, samples, round(spied.rate / rate, 2))


def table(profiles: dict[str, Profile]) -> str:
    """Rooms first, the dearest of all first; then what is in no room."""
    heads = [f"{one.name}, µs/{'chunk' if one.counts_events else 'request'}" for one in _SCENARIOS]
    shares: Counter[str] = Counter()
    for profile in profiles.values():
        for row, cost in profile.rows.items():
            shares[row] += round(10**6 * cost / profile.total)
    names = sorted(shares, key=lambda row: (row == SYSTEM_CALLS, "no room" in row, -shares[row]))
    lines = ["| | " + " | ".join(heads) + " |", "|---|" + "--:|" * len(heads)]
    for name in names:
        cells = [f"{profile.rows.get(name, 0):,.1f}" for profile in profiles.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    totals = [f"**{profile.total:,.1f}**" for profile in profiles.values()]
    end = -1 if SYSTEM_CALLS in names else len(lines)
    lines.insert(end, "| **all** | " + " | ".join(totals) + " |")
    lines.append("| samples | " + " | ".join(str(one.samples) for one in profiles.values()) + " |")
    kept = [f"{profile.rate_kept:.2f}" for profile in profiles.values()]
    lines.append("| rate while looked at, of the usual | " + " | ".join(kept) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="The gateway's CPU by room.")
    parser.add_argument("--seconds", type=float, default=10.0, help="of looking, for each traffic")
    parser.add_argument("--cache", type=Path, default=cache_folder())
    options = parser.parse_args()
    seconds = min(max(options.seconds, 2.0), 300.0)
    require({*LOAD, *COMPILED})
    spy = installed(options.cache, "py-spy", [_SPY])
    programs = options.cache / "benchmarks"
    build(programs)
    upstream, ports = start_upstream(programs / "upstream")
    try:
        candidate = start_penstock(ports)
        try:
            profiles = {
                one.name: look(one, candidate, spy, programs / "loadgen", seconds)
                for one in _SCENARIOS
            }
        finally:
            candidate.stop()
    finally:
        stop_process(upstream)
    print(f"{machine()}; py-spy, {_LOOKS_PER_SECOND} samples a second\n")
    print(table(profiles) + "\n")
    print(msgspec.json.encode(profiles).decode(), flush=True)


if __name__ == "__main__":
    main()
