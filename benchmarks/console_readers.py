"""What fifty people who watch the console's live pages cost the gateways beside it.

`make bench-readers`. A gateway answers 200 requests a second; in every other half minute fifty
readers, each with a key of their own, renew the page of the fleet every two seconds. The gateway
has a core of its own. Then the same once more with a gateway in callgrind, as fast as it answers
there. The last line is JSON:

`gateway_instructions_ratio`: the gateway's instructions per request with readers over without, the
median of the pairs of half minutes in callgrind. It is held to 1.03.
`gateway_cpu_ratio`: the same in CPU time at 200 requests a second; `low` and `high` are its
quartiles. It is told and not held: a busy neighbour core alone changes it on a shared machine.
`statements_per_second`: what control asks of Postgres for its pages while they read.
`control_mb`: control's memory after the first minute, and at the end.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import httpx
import msgspec
from tests.integration.cells.control_process import ControlProcess, control_process
from tests.integration.console.reader_crowd import (
    CROWD_SETTINGS,
    READERS,
    make_keys,
    sign_in_all,
)

from callgrind import Dumps
from candidates import CANDIDATE_CORE, LOAD_CORE, start_upstream, stop_process
from figures import Spread, spread
from native_programs import build
from needs import COMPILED, LOAD, require
from page_statements import ServerLog, log_of, log_statements
from process_tree import pids_of, pss_megabytes
from scenarios import Cost, Scenario, run_once
from soak_gateway import SoakGateway

_STATEMENT_SECONDS: Final = 20.0
_SETTINGS: Final = {
    **CROWD_SETTINGS,
    "control.console_statement_seconds": _STATEMENT_SECONDS,
}
_WARM_UP_SECONDS: Final = 5.0
_RATIO_MAX: Final = 1.03
_STATEMENTS_MAX: Final = 10.0
_COUNTED_PAIRS: Final = 3
# Two connections that get an answer in about 9.5 ms: 200 requests a second.
_LOAD: Final = Scenario(
    name="steady",
    title="CPU µs/request, 200 a second",
    arguments=["-c", "2", "-b", "1900", "-t", "8", "-i", "8800"],
    scale=1e6,
)


async def _watch(control: ControlProcess, secrets: list[str], seconds: float) -> int:
    """Let everybody watch the fleet for some time; return how often a page was renewed."""
    async with httpx.AsyncClient(base_url=control.url, trust_env=False, timeout=20) as client:
        crowd = await sign_in_all(client, secrets)
        await crowd.watch("/console/fleet", seconds)
    return crowd.pages


class Cell(NamedTuple):
    """What runs: the gateway that is measured, control, and the load generator."""

    gateway: SoakGateway
    control: ControlProcess
    loadgen: Path
    # Where the gateway's profiles go, if it runs in callgrind.
    dumps: Dumps

    def load(self, seconds: float) -> Cost:
        return run_once(_LOAD, self.gateway.candidate(), self.loadgen, seconds)

    def instructions(self, seconds: float) -> float:
        """Return the gateway's instructions for each request."""
        with self.dumps.counting(self.gateway.pid):
            requests = self.load(seconds).units
        return self.dumps.take(self.gateway.pid).total / requests


class Readers:
    """Fifty people with keys of their own, and how many pages they were answered."""

    def __init__(self, cell: Cell) -> None:
        self._control = cell.control
        self._secrets = asyncio.run(make_keys(cell.gateway.dsn))
        self.pages = 0

    def beside(self, seconds: float, measure: Callable[[float], float]) -> float:
        """Let everybody watch for so long while something is measured; return its figure."""
        with ThreadPoolExecutor(1) as pool:
            watching = _watch(self._control, self._secrets, seconds)
            reading = pool.submit(asyncio.run, watching)
            measured = measure(seconds)
            self.pages += reading.result()
        return measured


class Pairs:
    """What a request cost in slices of time with readers, and without."""

    def __init__(self, readers: Readers, seconds: float, measure: Callable[[float], float]) -> None:
        self._readers = readers
        self._seconds = seconds
        self._measure = measure
        self.watched: list[float] = []
        self.alone: list[float] = []

    def run(self, *, is_watched_first: bool) -> None:
        for is_watched in (is_watched_first, not is_watched_first):
            if is_watched:
                self.watched.append(self._readers.beside(self._seconds, self._measure))
            else:
                self.alone.append(self._measure(self._seconds))

    def ratio(self) -> Spread:
        pairs = zip(self.watched, self.alone, strict=True)
        return spread([watched / alone for watched, alone in pairs])


class Comparison:
    """CPU time with readers and without, and what the readers asked of control and Postgres."""

    def __init__(self, cell: Cell, seconds: float) -> None:
        self._cell = cell
        self._seconds = seconds
        self._readers = Readers(cell)
        self._log = ServerLog(log_of(cell.gateway.dsn), round(_STATEMENT_SECONDS * 1000))
        self._requests = self._statements = 0
        self._control_mb: list[float] = []
        # CPU of one request, in microseconds.
        self.cpu = Pairs(self._readers, seconds, self._cpu)

    def run_pair(self, *, is_watched_first: bool) -> None:
        """Load the gateway twice: with readers and without."""
        since = self._log.end()
        self.cpu.run(is_watched_first=is_watched_first)
        self._statements += len(self._log.of_pages(since))
        self._control_mb.append(pss_megabytes(self._cell.control.pid))

    def _cpu(self, seconds: float) -> float:
        cost = self._cell.load(seconds)
        self._requests += cost.units
        return cost.cpu

    def result(self, counted: Pairs) -> "Result":
        ratio, seconds = self.cpu.ratio(), len(self.cpu.watched) * self._seconds
        return Result(
            minutes=round(2 * seconds / 60, 1),
            readers=READERS,
            requests=self._requests,
            pages=self._readers.pages,
            gateway_instructions_ratio=round(counted.ratio().median, 3),
            gateway_cpu_ratio=round(ratio.median, 3),
            low=round(ratio.low, 3),
            high=round(ratio.high, 3),
            statements_per_second=round(self._statements / seconds, 1),
            control_mb=(round(self._control_mb[0], 1), round(self._control_mb[-1], 1)),
        )


class Result(msgspec.Struct, frozen=True):
    """The last line."""

    minutes: float
    readers: int
    requests: int
    pages: int
    gateway_instructions_ratio: float
    gateway_cpu_ratio: float
    low: float
    high: float
    statements_per_second: float
    control_mb: tuple[float, float]


def main() -> int:
    require({*LOAD, *COMPILED, "valgrind"})
    parser = argparse.ArgumentParser(description="Readers of live pages beside a gateway.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--slice-seconds", type=float, default=30.0)
    options = parser.parse_args()
    seconds: float = options.slice_seconds
    pairs = max(1, round(options.minutes * 60 / seconds / 2))
    with _cell(is_counted=False) as cell:
        cell.load(_WARM_UP_SECONDS)
        compared = Comparison(cell, seconds)
        for number in range(pairs):
            # Who is first changes, so that a neighbour's minute does not always hit the same.
            compared.run_pair(is_watched_first=number % 2 == 1)
            _tell(number, pairs, "CPU µs", compared.cpu)
    with _cell(is_counted=True) as cell:
        cell.load(_WARM_UP_SECONDS)
        counted = Pairs(Readers(cell), seconds, cell.instructions)
        for number in range(_COUNTED_PAIRS):
            counted.run(is_watched_first=number % 2 == 1)
            _tell(number, _COUNTED_PAIRS, "instructions", counted)
    result = compared.result(counted)
    print(msgspec.json.encode(result).decode())
    is_quiet = 0 < result.statements_per_second <= _STATEMENTS_MAX
    return 0 if is_quiet and result.gateway_instructions_ratio <= _RATIO_MAX else 1


def _tell(number: int, pairs: int, unit: str, found: Pairs) -> None:
    figures = f"{found.watched[-1]:,.0f} with readers, {found.alone[-1]:,.0f} without"
    print(f"pair {number + 1} of {pairs}: {unit} a request {figures}", flush=True)


@contextmanager
def _cell(*, is_counted: bool) -> Iterator[Cell]:
    """Run a gateway on one core, and upstreams, control and this program on the other."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-readers-")))
        build(folder)
        os.sched_setaffinity(0, {LOAD_CORE})
        upstream, ports = start_upstream(folder / "upstream")
        stack.callback(stop_process, upstream)
        dumps = Dumps(folder / "callgrind")
        gateway = SoakGateway(ports, workers=1, under=dumps.command if is_counted else ())
        stack.callback(gateway.stop)
        for pid in pids_of(gateway.pid):
            os.sched_setaffinity(pid, {CANDIDATE_CORE})
        log_statements(gateway.dsn)
        control = stack.enter_context(control_process(gateway.dsn, folder, _SETTINGS))
        yield Cell(gateway, control, folder / "loadgen", dumps)


if __name__ == "__main__":
    sys.exit(main())
