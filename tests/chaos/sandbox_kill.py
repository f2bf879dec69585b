"""Kills a sandbox host with kill -9 while code runs in each of its containers.

`python -m tests.chaos.sandbox_kill [--short]`; its last line is the result as JSON. It ends with 1
unless every item failed in 2 seconds and the model was told, nothing of the old boot was left 5
seconds after the host was started again, and nobody could read another account's files. The short
form kills once; where containers cannot run it is skipped, and says why.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import msgspec
import psycopg
from psycopg.conninfo import make_conninfo
from tests.chaos.sandbox_kill_load import KillLoad, RunningCode, found_by, marks_written
from tests.integration.cells.gateway_cell import CHAT, CellFactory
from tests.integration.cells.gateway_process import free_port
from tests.integration.cells.runtime_dsn import prepare_runtime_role
from tests.integration.cells.stored_cell import STORING
from tests.integration.sandbox.host_process import TOKEN, SandboxHost, sandbox_host
from tests.integration.sandbox.machine_leftovers import (
    groups_below,
    mounts,
    processes_below,
    processes_of_users,
    started,
    still_there,
)

from penstock.sandbox.bubblewrap import Bubblewrap
from penstock.sandbox.control_groups import ControlGroups
from penstock.sandbox.image import make_image
from penstock.store import migrate
from penstock.store.embedded import EmbeddedPostgres

_CONTAINERS = 30
_FAILED_SECONDS_MAX = 2.0
_GONE_SECONDS = 5.0
_START_SECONDS_MAX = 60.0
_SEARCHES = 6
_NOTHING = "found []"
_UID_FIRST, _UIDS = 280_000, 64
_USERS = range(_UID_FIRST, _UID_FIRST + _UIDS)
# No warm containers: whatever is there after a restart is of the old boot.
_SETTINGS = {
    "uid_first": _UID_FIRST,
    "uids": _UIDS,
    "memory_tiers_mb": [128],
    "memory_mb_total": 128 * 40,
    "containers_max": 40,
    "execs_at_once_max": 40,
    "warm": 0,
}
_TEMPLATE = "sandbox_kill"


class KillFindings(msgspec.Struct):
    """The last line. `not_failed` to `readable` must be 0."""

    kills: int = 0
    containers: int = 0
    # Items that did not fail in time, and models that were not told why.
    not_failed: int = 0
    not_told: int = 0
    # Processes, control groups and mounts of the old boot.
    leftovers: int = 0
    # Files of one account that the other could read; and files that their own account could not.
    readable: int = 0
    lost_files: int = 0
    failed_seconds: float = 0.0
    seconds: float = 0.0
    skipped: str | None = None

    def note(self, name: str, what: str) -> None:
        setattr(self, name, getattr(self, name) + 1)
        print(f"{name}: {what[:300]}", flush=True)

    def is_good(self, kills: int) -> bool:
        broken = self.not_failed + self.not_told + self.leftovers + self.readable + self.lost_files
        return self.kills == kills and self.containers == kills * _CONTAINERS and not broken


class OldBoot(msgspec.Struct, frozen=True):
    """What there was before the kill: code, processes with the times they began, and mounts."""

    running: list[RunningCode]
    processes: set[tuple[int, str]]
    mounts: set[str]


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill test of a sandbox host.")
    parser.add_argument("--short", action="store_true", help="one kill, for CI")
    is_short = parser.parse_args().short
    kills = 1 if is_short else 5
    findings, began = KillFindings(), time.monotonic()
    # Not below a folder that is shut to the containers' users.
    folder = Path(tempfile.mkdtemp(prefix="penstock-sandbox-kill-"))
    try:
        folder.chmod(0o755)
        problem = Bubblewrap(folder / "image", ControlGroups()).host_problem()
        if not problem:
            make_image(folder / "image", ())
            _run(folder, kills, findings)
    finally:
        shutil.rmtree(folder)
    findings.skipped = problem if problem and is_short else None
    findings.seconds = round(time.monotonic() - began, 1)
    if problem:
        print(f"{'skipped' if is_short else 'cannot run here'}: {problem}", flush=True)
    print(msgspec.json.encode(findings).decode(), flush=True)
    return 0 if (is_short and problem) or findings.is_good(kills) else 1


def _run(folder: Path, kills: int, findings: KillFindings) -> None:
    port = free_port()
    (folder / "token").touch(0o600)
    (folder / "token").write_text(f"{TOKEN}\n")
    settings = {
        **STORING,
        "tools.sandbox_hosts": [f"http://127.0.0.1:{port}"],
        "tools.sandbox_token_file": str(folder / "token"),
        "tools.allow_shared_kernel": True,
        "tools.containers_per_account_max": 10_000,
    }
    with _cells(folder) as cells, cells.open(settings) as cell:
        load = KillLoad(cell, cell.set_up(CHAT), _CONTAINERS)
        try:
            with ExitStack() as stack:
                host = stack.enter_context(_host(folder, port))
                for _ in range(kills):
                    old = _kill(host, load, findings)
                    stack.close()
                    host = stack.enter_context(_host(folder, port))
                    _check_restarted(old, host, load, findings)
        finally:
            load.close()


def _host(folder: Path, port: int) -> AbstractContextManager[SandboxHost]:
    return sandbox_host(folder, image=folder / "image", port=port, **_SETTINGS)


def _kill(host: SandboxHost, load: KillLoad, findings: KillFindings) -> OldBoot:
    """Kill the host while code runs in each container, and look at what each caller gets."""
    mounted = mounts()
    running = load.start()
    deadline = time.monotonic() + _START_SECONDS_MAX
    while marks_written(_USERS) < {each.mark for each, _ in running}:
        ended = [each.item for each, _ in running if each.item]
        assert not ended, f"code has ended by itself: {ended[0]}"
        assert time.monotonic() < deadline, "not all code runs in time"
        time.sleep(0.2)
    old = OldBoot(
        [each for each, _ in running],
        {*processes_below(host.process.pid), *started(processes_of_users(_USERS))},
        mounted,
    )
    assert len(old.processes) >= _CONTAINERS, old.processes
    killed_at = time.monotonic()
    host.process.kill()
    host.process.wait()
    findings.kills += 1
    findings.containers += len(running)
    wait([stream for _, stream in running], timeout=30)
    for each, stream in running:
        _check_failed(each, stream, killed_at, findings)
    for each in old.running:
        told = load.tell(each)
        if "The container was ended" not in told:
            findings.note("not_told", told)
    return old


def _check_failed(
    each: RunningCode, stream: Future[None], killed_at: float, findings: KillFindings
) -> None:
    took = each.ended_at - killed_at
    findings.failed_seconds = max(findings.failed_seconds, round(took, 2))
    problem = stream.exception(timeout=0) if stream.done() else "its stream is still open"
    states = (each.item.get("status"), each.last.get("status"))
    if problem or not 0 <= took <= _FAILED_SECONDS_MAX or states != ("failed", "completed"):
        findings.note("not_failed", f"{states} after {took:.2f} s, {problem or each.item}")
    found = found_by(each.item)
    if found != f"found {[each.mark]}":
        findings.note("readable", f"in the container of {each.mark}: {found}")


def _check_restarted(
    old: OldBoot, host: SandboxHost, load: KillLoad, findings: KillFindings
) -> None:
    """Look for what is left of the old boot, and for files in the hands of others."""
    time.sleep(_GONE_SECONDS)
    left = [
        *still_there(old.processes),
        *processes_of_users(_USERS),
        *groups_below(host.port),
        *(mounts() - old.mounts),
    ]
    for each in left:
        findings.note("leftovers", str(each))
    for code in old.running:
        for page in load.readable_by_others(code):
            findings.note("readable", page)
        if not load.is_kept(code):
            findings.note("lost_files", code.container)
    # New containers have the users of old ones.
    for number in range(_SEARCHES):
        found = load.search(number)
        if found.strip() != _NOTHING:
            findings.note("readable", f"after the restart: {found}")


@contextmanager
def _cells(folder: Path) -> Iterator[CellFactory]:
    """Gateways on a Postgres of the run's own."""
    server = EmbeddedPostgres(folder / "postgres", fast_unsafe=True)
    numbers = iter(range(100))

    def new_folder(name: str) -> Path:
        made = folder / f"{name}{next(numbers)}"
        made.mkdir()
        return made

    try:
        dsn = server.start()
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"create database {_TEMPLATE}")
        template = make_conninfo(dsn, dbname=_TEMPLATE)
        asyncio.run(migrate(template))
        asyncio.run(prepare_runtime_role(template))
        yield CellFactory(dsn, _TEMPLATE, new_folder)
    finally:
        server.stop()


if __name__ == "__main__":
    sys.exit(main())
