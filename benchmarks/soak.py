"""Does a gateway wear out? 64 streams and 200 requests/s for half an hour, with everything on.

`python benchmarks/soak.py [--minutes 30]` prints last one line of JSON, and ends with 1 if it has
faults: a request failed, a ledger row lacks, a connection or file was left open, or, in runs of 15
minutes and more, memory grew by more than 2 % in 30 minutes after 5 minutes' warm-up, or CPU per
request or p50 by more than a tenth. Needs gcc.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from candidates import start_upstream, stop_process
from native_programs import build
from needs import COMPILED, LOAD, require
from process_tree import cpu_seconds
from soak_calibration import loop_microseconds
from soak_gateway import SoakGateway
from soak_load import SoakLoad
from soak_verdict import Mark, Plan, Seen, show
from soak_watch import Look, look_at

_LOOK_SECONDS = 2.0
_ROWS_SECONDS = 30.0
_LEAVE_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(description="A gateway under a steady load.")
    parser.add_argument("--minutes", type=float, default=30.0)
    plan = Plan(parser.parse_args().minutes * 60)
    require({*LOAD, *COMPILED})
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        return _run(Path(folder), plan)


def _run(programs: Path, plan: Plan) -> int:
    build(programs)
    upstream, ports = start_upstream(programs / "upstream")
    try:
        gateway = SoakGateway(ports)
        try:
            return _soak(gateway, programs / "loadgen", plan)
        finally:
            gateway.stop()
    finally:
        stop_process(upstream)


def _soak(gateway: SoakGateway, loadgen: Path, plan: Plan) -> int:
    # What asked whether the gateway is ready is in the ledger too.
    rows_before = _settled_rows(gateway, 1)
    pids = gateway.worker_pids()
    seen = Seen(plan=plan, looks={pid: [] for pid in pids})
    with SoakLoad(gateway, loadgen, plan.seconds, plan.slice_seconds) as load:
        _watch(gateway, load, seen)
        seen.slices = load.slices()
    seen.clients_left = _clients_left(gateway, pids)
    requests = sum(each.report.requests for each in seen.slices)
    seen.rows = _settled_rows(gateway, requests + rows_before) - rows_before
    seen.is_worker_lost = gateway.worker_pids() != pids
    shown = show(seen)
    print(msgspec.json.encode(shown).decode(), flush=True)
    return 1 if shown.faults else 0


def _watch(gateway: SoakGateway, load: SoakLoad, seen: Seen) -> None:
    """Look again and again until the load ends."""
    plan = seen.plan
    marks_at = [plan.first.begin, plan.first.end, plan.last.begin, plan.last.end]
    told = 0
    while load.is_running():
        time.sleep(_LOOK_SECONDS)
        at = time.monotonic() - load.began
        looks = _look(gateway, list(seen.looks), at)
        for pid, look in looks.items():
            seen.looks[pid].append(look)
        seen.loops.append((at, loop_microseconds()))
        while len(seen.marks) < len(marks_at) and at >= marks_at[len(seen.marks)]:
            seen.marks.append(_mark(gateway))
        if at // 60 > told:
            told = int(at // 60)
            print(f"minute {told}: {', '.join(map(_told, looks.values()))}", flush=True)
    # The load may end a moment before the last of them is due.
    while len(seen.marks) < len(marks_at):
        seen.marks.append(_mark(gateway))


def _look(gateway: SoakGateway, pids: list[int], at: float) -> dict[int, Look]:
    return look_at(pids, at, port=gateway.port, engine_ports=gateway.upstream_ports)


def _mark(gateway: SoakGateway) -> Mark:
    return Mark(cpu_seconds(gateway.pid), gateway.requests_ended())


def _told(look: Look) -> str:
    size = f"{look.rss_kilobytes / 1024:.1f} MB"
    return f"{size}, {look.files} files, {look.clients} clients, {look.engines} to engines"


def _clients_left(gateway: SoakGateway, pids: list[int]) -> int:
    """Connections that workers still hold some time after all clients have gone."""
    deadline = time.monotonic() + _LEAVE_SECONDS
    while left := sum(look.clients for look in _look(gateway, pids, 0.0).values()):
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    return left


def _settled_rows(gateway: SoakGateway, wanted: int) -> int:
    deadline = time.monotonic() + _ROWS_SECONDS
    while (rows := gateway.ledger_rows()) < wanted and time.monotonic() < deadline:
        time.sleep(0.5)
    return rows


if __name__ == "__main__":
    sys.exit(main())
