"""A quiet worker in callgrind, and what its requests cost: for benchmarks that count instructions.

`quiet_worker.py` is a worker in which nothing but requests costs instructions, under the bench's
own load on one connection: the same request costs the same within a tenth of a percent.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from callgrind import Dumps, Profile
from candidates import (
    CANDIDATE_CORE,
    LOAD_CORE,
    Candidate,
    free_ports_in_a_row,
    start_pinned,
    stop_process,
    wait_ready,
)
from native_programs import Report, run_load
from quiet_worker import SECRET, WRITE_SECONDS, Kind

WORKFLOW: Final = ["-H", "x-penstock-workflow: code-review"]
_ONE: Final = ["-c", "1", "-b", "1900"]
SMALL: Final = [*_ONE, "-n", "400"]
# Of text, a chunk every 8 ms: slow enough that each is read by itself, also in callgrind.
_STREAM: Final = [*_ONE, *WORKFLOW, "-s", "-i", "8000"]
_LONG: Final = [*_STREAM, "-n", "4", "-t", "200"]
_SHORT: Final = [*_STREAM, "-n", "4", "-t", "20"]
_WORKER: Final = Path(__file__).with_name("quiet_worker.py")
_SECONDS_MAX: Final = 120.0
_COMPILED: Final = "CPyDef_"
# Of functions without a name, which differs from start to start.
_NAMELESS: Final = "0x"
# Called as often as the layout of memory decides: by a miss of CPython's cache of attributes,
# and by an allocator whose lists are empty. What calls these is counted.
_BY_LAYOUT: Final = frozenset(
    {
        *("find_name_in_mro", "assign_version_tag.isra.0", "_PyDict_GetItem_KnownHash"),
        *("_Py_dict_lookup", "unicodekeys_lookup_unicode"),
        *("_int_malloc", "_int_free", "malloc_consolidate", "unlink_chunk.constprop.0"),
    }
)
_READ: Final = "CPyDef_attempt___Attempt___on_read_end"
# A stream's first and last events come together; how many more may, and how often it is tried.
_READS_MIN: Final = 0.97
_TRIES: Final = 4
_ROWS_MAX: Final = 40

# What is told of each count: the kind of request, and the count.
Tell = Callable[[str, "Count"], None]


class Worker:
    """One quiet worker in callgrind, with a port for each of `kinds`."""

    def __init__(
        self,
        package: Path,
        upstreams: list[int],
        folder: Path,
        name: str,
        kinds: Mapping[str, "Kind"],
    ) -> None:
        self._programs = folder
        self._dumps = Dumps(folder / f"callgrind-{name}")
        first = free_ports_in_a_row(len(kinds))
        self._ports = {kind: first + at for at, kind in enumerate(kinds)}
        words = [",".join(map(str, upstreams))]
        for name_of_kind, kind in kinds.items():
            file = folder / f"{name_of_kind}.toml"
            file.write_text(kind.contract)
            words.append(f"{self._ports[name_of_kind]}={file}{kind.tracing}")
        command = [*self._dumps.command, sys.executable, str(_WORKER)]
        # The same order of sets in each run.
        settings = {"PYTHONPATH": str(package), "PYTHONHASHSEED": "0"}
        environment = {**os.environ, **settings}  # noqa: TID251 - a child's settings
        self._process = start_pinned([*command, *words], CANDIDATE_CORE, environment)

    def warm_up(self) -> None:
        for kind in self._ports:
            wait_ready(self._candidate(kind))
            self._load(kind, [*SMALL, *WORKFLOW])
            self._load(kind, _SHORT)

    def measure(self, kind: str, arguments: list[str]) -> "Count":
        """Count one load by itself, with what it leaves to write."""
        with self._dumps.counting(self._process.pid):
            report = self._load(kind, arguments)
            time.sleep(2 * WRITE_SECONDS)
        return Count(self._dumps.take(self._process.pid), report.requests, report.events)

    def chunk(self, kind: str, tell: Tell) -> "Count":
        """Count chunks of a text stream as if each were a request: long streams less short ones."""
        for _ in range(_TRIES):
            long, short = self.measure(kind, _LONG), self.measure(kind, _SHORT)
            tell(f"{kind} {_LONG[-2:]}", long)
            events = long.events - short.events
            if long.reads - short.reads >= _READS_MIN * events:
                return Count(long.profile.minus(short.profile), events, events)
        raise SystemExit("This machine is too busy: chunks of a stream are read several at once.")

    def stop(self) -> None:
        stop_process(self._process)

    def _load(self, kind: str, arguments: list[str]) -> Report:
        words = [*self._candidate(kind).load_arguments(), *arguments]
        return run_load(self._programs / "loadgen", words, _SECONDS_MAX, LOAD_CORE)

    def _candidate(self, kind: str) -> Candidate:
        return Candidate("quiet", self._ports[kind], self._process, key=SECRET)


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
    """Return what a request costs more than on the other package, by functions and calls.

    What the layout of memory decides is left out: it differs by hundreds of instructions from one
    start of the same program to the next.
    """
    return sum(
        _own_added(name, count, bare)
        for name in {*count.profile.own, *bare.profile.own} - _BY_LAYOUT
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


def print_functions(kind: str, count: Count) -> None:
    """Print what each function costs a request."""
    profile, units = count.profile, count.requests
    print(f"{kind}: with calls | own | calls, of each request")
    for name in sorted(profile.own, key=lambda name: -profile.own[name])[:_ROWS_MAX]:
        cost, own = profile.inclusive[name] / units, profile.own[name] / units
        print(f"{cost:10,.0f} {own:8,.0f} {profile.calls[name] / units:7.2f} {name}")
