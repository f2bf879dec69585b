"""Runs hostile code in the containers of a real sandbox host, through its HTTP API.

`python -m tests.chaos.sandbox [--only WORDS]`; its last line is the result as JSON, and it ends
with 1 when a row went wrong, when anything was left on the machine, or when it cannot run here.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import msgspec
from tests.chaos.sandbox_rows import HostileRun, rows
from tests.integration.sandbox.host_process import sandbox_host
from tests.integration.sandbox.machine_leftovers import groups_below, mounts, processes_of_users

from penstock.sandbox.bubblewrap import Bubblewrap
from penstock.sandbox.control_groups import ControlGroups
from penstock.sandbox.image import make_image

_ROWS_MIN = 60
_UID_FIRST, _UIDS = 270_000, 200
_SETTINGS = {
    "uid_first": _UID_FIRST,
    "uids": _UIDS,
    "memory_tiers_mb": [128],
    "memory_mb_total": 128 * 72,
    "containers_max": 72,
    "execs_at_once_max": 72,
    "pids_max": 40,
    "warm": 2,
    "connections_max": 400,
}


class HostileFindings(msgspec.Struct):
    """What the run has shown; the last line."""

    rows: int = 0
    escapes: int = 0
    leaks: int = 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Hostile code against a sandbox host.")
    parser.add_argument("--only", default="", help="rows whose names contain this")
    only = parser.parse_args().only
    # Not below a folder that is shut to the containers' users.
    folder = Path(tempfile.mkdtemp(prefix="penstock-hostile-"))
    try:
        folder.chmod(0o755)
        make_image(folder / "image", ())
        problem = Bubblewrap(folder / "image", ControlGroups()).problem()
        if problem:
            print(f"cannot run here: {problem}", flush=True)
            return 1
        findings = _run(folder, only)
    finally:
        shutil.rmtree(folder)
    print(msgspec.json.encode(findings).decode(), flush=True)
    is_whole = bool(only) or findings.rows >= _ROWS_MIN
    return 0 if is_whole and not (findings.escapes or findings.leaks) else 1


def _run(folder: Path, only: str) -> HostileFindings:
    findings, began, mounted = HostileFindings(), time.monotonic(), mounts()
    with sandbox_host(folder, image=folder / "image", **_SETTINGS) as host:
        run = HostileRun(host)
        for name, row in rows().items():
            if only not in name:
                continue
            findings.rows += 1
            try:
                row(run)
            except AssertionError as wrong:
                findings.escapes += 1
                print(f"{name}: {str(wrong)[:500]}", flush=True)
        run.close()
    left = [
        *processes_of_users(range(_UID_FIRST, _UID_FIRST + _UIDS)),
        *groups_below(host.port),
        *(mounts() - mounted),
    ]
    findings.leaks = len(left)
    for each in left:
        print(f"left behind: {each}", flush=True)
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    return findings


if __name__ == "__main__":
    sys.exit(main())
