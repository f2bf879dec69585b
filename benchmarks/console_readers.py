"""What fifty people who watch the console's live pages cost the gateways beside it.

`make bench-readers`. A gateway answers 200 requests a second; in every other half minute fifty
readers, each with a key of their own, renew the page of the fleet every two seconds. The gateway
has a core of its own. The last line is JSON:

`gateway_cpu_ratio`: the gateway's CPU per request with readers over without, the median of the
pairs of half minutes; `low` and `high` are its quartiles.
`statements_per_second`: what control asks of Postgres for its pages while they read.
`control_mb`: control's memory after the first minute, and at the end.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Iterator
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

from candidates import CANDIDATE_CORE, LOAD_CORE, start_upstream, stop_process
from figures import spread
from native_programs import build
from needs import COMPILED, LOAD, require
from page_statements import ServerLog, log_of, log_statements
from process_tree import pids_of, pss_megabytes
from scenarios import Scenario, run_once
from soak_gateway import SoakGateway

_STATEMENT_SECONDS: Final = 20.0
_SETTINGS: Final = {
    **CROWD_SETTINGS,
    "control.console_statement_seconds": _STATEMENT_SECONDS,
}
_WARM_UP_SECONDS: Final = 5.0
_RATIO_MAX: Final = 1.03
_STATEMENTS_MAX: Final = 10.0
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


class Comparison:
    """Half minutes with readers and without, and what each cost."""

    def __init__(self, cell: Cell, seconds: float) -> None:
        self._cell = cell
        self._seconds = seconds
        self._secrets = asyncio.run(make_keys(cell.gateway.dsn))
        self._log = ServerLog(log_of(cell.gateway.dsn), round(_STATEMENT_SECONDS * 1000))
        # CPU of one request, in microseconds.
        self.watched: list[float] = []
        self.alone: list[float] = []
        self.requests = self.pages = self.statements = 0
        self.control_mb: list[float] = []

    def run_pair(self, *, is_watched_first: bool) -> None:
        """Load the gateway twice: with readers and without."""
        for is_watched in (is_watched_first, not is_watched_first):
            if is_watched:
                self.watched.append(self._run_watched())
            else:
                self.alone.append(self._run())
        self.control_mb.append(pss_megabytes(self._cell.control.pid))

    def _run_watched(self) -> float:
        since = self._log.end()
        with ThreadPoolExecutor(1) as pool:
            watching = _watch(self._cell.control, self._secrets, self._seconds)
            reading = pool.submit(asyncio.run, watching)
            cpu = self._run()
            self.pages += reading.result()
        self.statements += len(self._log.of_pages(since))
        return cpu

    def _run(self) -> float:
        cell = self._cell
        cost = run_once(_LOAD, cell.gateway.candidate(), cell.loadgen, self._seconds)
        self.requests += round(cost.rate * self._seconds)
        return cost.cpu

    def result(self) -> "Result":
        pairs = zip(self.watched, self.alone, strict=True)
        ratio = spread([watched / alone for watched, alone in pairs])
        seconds = len(self.watched) * self._seconds
        return Result(
            minutes=round(2 * seconds / 60, 1),
            readers=READERS,
            requests=self.requests,
            pages=self.pages,
            gateway_cpu_ratio=round(ratio.median, 3),
            low=round(ratio.low, 3),
            high=round(ratio.high, 3),
            statements_per_second=round(self.statements / seconds, 1),
            control_mb=(round(self.control_mb[0], 1), round(self.control_mb[-1], 1)),
        )


class Result(msgspec.Struct, frozen=True):
    """The last line."""

    minutes: float
    readers: int
    requests: int
    pages: int
    gateway_cpu_ratio: float
    low: float
    high: float
    statements_per_second: float
    control_mb: tuple[float, float]


def main() -> int:
    require({*LOAD, *COMPILED})
    parser = argparse.ArgumentParser(description="Readers of live pages beside a gateway.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--slice-seconds", type=float, default=30.0)
    options = parser.parse_args()
    pairs = max(1, round(options.minutes * 60 / options.slice_seconds / 2))
    with _cell() as cell:
        run_once(_LOAD, cell.gateway.candidate(), cell.loadgen, _WARM_UP_SECONDS)
        compared = Comparison(cell, options.slice_seconds)
        for number in range(pairs):
            # Who is first changes, so that a neighbour's minute does not always hit the same.
            compared.run_pair(is_watched_first=number % 2 == 1)
            told = f"{compared.watched[-1]:.0f} with readers, {compared.alone[-1]:.0f} without"
            print(f"pair {number + 1} of {pairs}: CPU µs a request {told}", flush=True)
    result = compared.result()
    print(msgspec.json.encode(result).decode())
    is_quiet = result.statements_per_second <= _STATEMENTS_MAX
    return 0 if is_quiet and result.gateway_cpu_ratio <= _RATIO_MAX else 1


@contextmanager
def _cell() -> Iterator[Cell]:
    """Run a gateway on one core, and upstreams, control and this program on the other."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-readers-")))
        build(folder)
        os.sched_setaffinity(0, {LOAD_CORE})
        upstream, ports = start_upstream(folder / "upstream")
        stack.callback(stop_process, upstream)
        gateway = SoakGateway(ports, workers=1)
        stack.callback(gateway.stop)
        for pid in pids_of(gateway.pid):
            os.sched_setaffinity(pid, {CANDIDATE_CORE})
        log_statements(gateway.dsn)
        control = stack.enter_context(control_process(gateway.dsn, folder, _SETTINGS))
        yield Cell(gateway, control, folder / "loadgen")


if __name__ == "__main__":
    sys.exit(main())
