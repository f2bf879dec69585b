"""Does a gateway grow? 300 requests/s for half an hour, and the memory of each worker meanwhile.

`python benchmarks/soak.py [--minutes 30]` prints last one line of JSON, and ends with 1 if a
request failed, a ledger row lacks, or a worker grew by more than 2 % in 30 minutes after 5 minutes'
warm-up. A run of less than 15 minutes tells the slope and does not judge it. Needs gcc.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import fmean, linear_regression

import msgspec

from candidates import start_upstream, stop_process
from native_programs import Report, build
from soak_gateway import SoakGateway

_WARM_UP_SECONDS = 300.0
_JUDGED_MINUTES_MIN = 15.0
_GROWTH_PERCENT_MAX = 2.0
_LOOK_SECONDS = 2.0
_ROWS_SECONDS = 30.0
# Each of four loads: connections that get an answer in about 0.11 s, so about 80 requests/s.
_CONNECTIONS = 9
_WHOLE = ("-t", "8", "-i", "95000")
_STREAM = ("-s", "-t", "8", "-i", "12000")
_SESSIONS = ("-h", "x-session-id", "-x", "200")
_WORKFLOWS = ("-h", "x-penstock-workflow", "-x", "20")


class Growth(msgspec.Struct):
    """One worker: where it stood after the warm-up, at the end, and its slope."""

    pid: int
    looks: list[tuple[float, float]] = msgspec.field(default_factory=list)

    def percent_per_30_minutes(self) -> float:
        seconds, kilobytes = zip(*self.looks, strict=True)
        return linear_regression(seconds, kilobytes).slope * 1800 / fmean(kilobytes) * 100

    def shown(self) -> dict[str, float]:
        return {
            "first_mb": round(self.looks[0][1] / 1024, 1),
            "last_mb": round(self.looks[-1][1] / 1024, 1),
            "growth_percent_per_30_minutes": round(self.percent_per_30_minutes(), 2),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory of a gateway under a steady load.")
    parser.add_argument("--minutes", type=float, default=30.0)
    seconds = parser.parse_args().minutes * 60
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        return _run(Path(folder), seconds)


def _run(programs: Path, seconds: float) -> int:
    build(programs)
    upstream, ports = start_upstream(programs / "upstream")
    try:
        gateway = SoakGateway(ports)
        try:
            return _soak(gateway, programs / "loadgen", seconds)
        finally:
            gateway.stop()
    finally:
        stop_process(upstream)


def _soak(gateway: SoakGateway, loadgen: Path, seconds: float) -> int:
    # What asked whether the gateway is ready is in the ledger too.
    rows_before = _settled_rows(gateway, 1)
    loads = _start_loads(gateway, loadgen, seconds)
    growths = _watch(gateway, loads, seconds)
    reports = [msgspec.json.decode(load.communicate()[0], type=Report) for load in loads]
    requests = sum(report.requests for report in reports)
    failed = sum(report.failures + report.unfinished for report in reports)
    rows = _settled_rows(gateway, requests + rows_before) - rows_before
    is_judged = seconds >= _JUDGED_MINUTES_MIN * 60
    worst = max(growth.percent_per_30_minutes() for growth in growths)
    is_replaced = sorted(gateway.worker_pids()) != [growth.pid for growth in growths]
    result = {
        "minutes": round(seconds / 60, 1),
        "requests": requests,
        "requests_per_second": round(sum(report.requests_per_second for report in reports), 1),
        "failed": failed,
        "first_failure": next((report.failure for report in reports if report.failure), ""),
        "rows": rows,
        "workers": [growth.shown() for growth in growths],
        "is_worker_lost": is_replaced,
        "is_slope_judged": is_judged,
    }
    print(msgspec.json.encode(result).decode(), flush=True)
    is_good = not failed and rows == requests and not is_replaced
    return 0 if is_good and not (is_judged and worst > _GROWTH_PERCENT_MAX) else 1


def _start_loads(
    gateway: SoakGateway, loadgen: Path, seconds: float
) -> list[subprocess.Popen[bytes]]:
    shapes = (
        (gateway.free_key, (*_WHOLE, *_SESSIONS)),
        (gateway.free_key, (*_STREAM, *_WORKFLOWS)),
        (gateway.limited_key, (*_WHOLE, *_WORKFLOWS)),
        (gateway.limited_key, (*_STREAM, *_SESSIONS)),
    )
    steady = ["-p", str(gateway.port), "-d", str(seconds), "-c", str(_CONNECTIONS), "-b", "1900"]
    return [
        subprocess.Popen(
            [str(loadgen), *steady, "-m", "m", "-k", key, *shape], stdout=subprocess.PIPE
        )
        for key, shape in shapes
    ]


def _watch(
    gateway: SoakGateway, loads: list[subprocess.Popen[bytes]], seconds: float
) -> list[Growth]:
    """Look at each worker's memory until the loads end; what is before the warm-up is left out."""
    began = time.monotonic()
    warm_up = min(_WARM_UP_SECONDS, seconds / 4)
    growths = [Growth(pid) for pid in gateway.worker_pids()]
    told = 0
    while any(load.poll() is None for load in loads):
        time.sleep(_LOOK_SECONDS)
        at = time.monotonic() - began
        if warm_up <= at <= seconds:
            for growth in growths:
                growth.looks.append((at, _rss_kilobytes(growth.pid)))
        if at // 60 > told:
            told = int(at // 60)
            sizes = ", ".join(f"{_rss_kilobytes(g.pid) / 1024:.1f} MB" for g in growths)
            print(f"minute {told}: {sizes}", flush=True)
    return growths


def _rss_kilobytes(pid: int) -> float:
    """0 for a worker that is gone, which the run ends with an error for."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return next((float(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0.0)


def _settled_rows(gateway: SoakGateway, wanted: int) -> int:
    deadline = time.monotonic() + _ROWS_SECONDS
    while (rows := gateway.ledger_rows()) < wanted and time.monotonic() < deadline:
        time.sleep(0.5)
    return rows


if __name__ == "__main__":
    sys.exit(main())
