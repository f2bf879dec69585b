"""Engines as real processes: started, found again, ended whole, and never left behind."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.integration.fleet.engine_replicas import replica_at

from penstock.clock import SystemClock, new_id
from penstock.errors import NoReplica
from penstock.fleet.engine_keys import EngineKeys
from penstock.fleet.health import EngineProbe
from penstock.fleet.intent import Phase, Want
from penstock.fleet.processes import is_running, signal_group, signal_process
from penstock.fleet.providers import SeenProcess
from penstock.fleet.providers.process import ProcessProvider
from penstock.fleet.replica_files import ReplicaFile, StateFolder
from penstock.fleet.settings import FleetSettings
from penstock.records.model import ModelId, Recipe
from penstock.records.replica import ReplicaId
from penstock.store import Store, StoreSettings

_ENGINE = (sys.executable, "-m", "penstock.testing.scripted_engine", "--port", "{port}")
_WANT = Want("w", "process", ModelId("m"), 1)
# An engine that takes no notice of SIGTERM and has a worker that does not either.
_STUBBORN = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 1:
    child = subprocess.Popen([sys.executable, __file__, "worker"])
    print("worker", child.pid, flush=True)
time.sleep(600)
"""


class Bench:
    """One state folder with its provider, and an eye on every process that was started there."""

    def __init__(self, path: Path) -> None:
        self.folder = StateFolder(path)
        self.folder.open()
        self._path = path
        self.want = _WANT

    def provider(
        self, *command: str, environment: dict[str, str] | None = None, **settings: object
    ) -> ProcessProvider:
        plain = {
            "port_first": 23000,
            "orphan_seconds": 60.0,
            "stop_grace_seconds": 5.0,
            "port_last": 23999,
        }
        recipe = Recipe(command or (*_ENGINE, "--model", "m"), environment or {})
        made = FleetSettings(**{**plain, "engine_keys": True, **settings})  # type: ignore[arg-type]
        # Asked only if the cell is to decide.
        keys = EngineKeys(Store(StoreSettings(dsn="host=127.0.0.1")), made)
        self.want = msgspec.structs.replace(_WANT, recipe=recipe)
        return ProcessProvider(made, self.folder, keys, SystemClock())

    def file(self, replica: ReplicaId) -> ReplicaFile:
        found = self.folder.read(replica)
        assert found is not None
        return found

    def end_all(self) -> None:
        for path in self._path.glob("*/*/state.json"):
            state = json.loads(path.read_bytes())
            supervisor = (state["supervisor_pid"], state["supervisor_started"])
            signal_process(*supervisor, signal.SIGKILL)
            if is_running(state["engine_pid"], state["engine_started"]):
                signal_group(state["engine_pid"], signal.SIGKILL)
        self.folder.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "fleet")
    yield made
    made.end_all()


async def _until(claim: Callable[[], bool], seconds: float = 15.0) -> None:
    deadline = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < deadline, "it did not come true in time"
        await asyncio.sleep(0.02)


async def _only(provider: ProcessProvider) -> SeenProcess:
    [seen] = await provider.observe()
    return seen


async def _ended(provider: ProcessProvider) -> SeenProcess:
    deadline = time.monotonic() + 15
    while (seen := await _only(provider)).phase is not Phase.ENDED:
        assert time.monotonic() < deadline, "it did not end in time"
        await asyncio.sleep(0.05)
    return seen


async def _started(bench: Bench, provider: ProcessProvider) -> ReplicaId:
    replica = ReplicaId(new_id())
    await provider.start(replica, bench.want)
    return replica


async def _healthy(url: str) -> None:
    probe = EngineProbe(FleetSettings())
    deadline = time.monotonic() + 20
    while not await probe.is_healthy(replica_at(url)):
        assert time.monotonic() < deadline, "the engine did not come up"
        await asyncio.sleep(0.05)


async def test_a_started_engine_serves_and_ends_when_told(bench: Bench) -> None:
    provider = bench.provider()
    replica = await _started(bench, provider)
    seen = await _only(provider)
    assert (seen.id, seen.phase, seen.want) == (replica, Phase.ALIVE, "w")
    await _healthy(seen.url)
    assert await EngineProbe(FleetSettings()).served_names(replica_at(seen.url)) == ("m",)
    assert await EngineProbe(FleetSettings()).running(replica_at(seen.url)) == 0
    await provider.stop(replica)
    await _ended(provider)
    file = bench.file(replica)
    assert not is_running(file.engine_pid, file.engine_started)
    await _until(lambda: not is_running(file.supervisor_pid, file.supervisor_started))


async def test_starting_and_stopping_twice_is_as_once(bench: Bench) -> None:
    provider = bench.provider()
    replica = await _started(bench, provider)
    before = bench.file(replica)
    await provider.start(replica, bench.want)
    assert bench.file(replica) == before
    for _ in range(2):
        await provider.stop(replica)
    await _ended(provider)
    await provider.stop(replica)
    await provider.stop(ReplicaId("never"))


async def test_supervisor_and_engine_are_outside_the_keepers_process_tree(bench: Bench) -> None:
    replica = await _started(bench, bench.provider())
    file = bench.file(replica)
    assert os.getpgid(file.engine_pid) == file.engine_pid
    assert os.getsid(file.supervisor_pid) not in (os.getsid(0), os.getsid(file.engine_pid))
    assert _parent(file.supervisor_pid) != os.getpid()


async def test_a_program_that_is_not_there_is_observed_as_ended(bench: Bench) -> None:
    provider = bench.provider("no-such-program")
    replica = await _started(bench, provider)
    seen = await _only(provider)
    assert (seen.phase, seen.detail) == (Phase.ENDED, "exit code 127")
    assert "could not be started" in bench.folder.last_line(replica)


async def test_an_engine_that_ends_by_itself_leaves_its_exit_code_and_log(bench: Bench) -> None:
    provider = bench.provider(sys.executable, "-c", "print('out of memory'); raise SystemExit(3)")
    replica = await _started(bench, provider)
    seen = await _ended(provider)
    assert seen.detail == "exit code 3"
    assert bench.folder.last_line(replica) == "out of memory"


async def test_a_stubborn_engine_is_killed_with_its_whole_group(
    bench: Bench, tmp_path: Path
) -> None:
    program = tmp_path / "stubborn.py"
    program.write_text(_STUBBORN)
    provider = bench.provider(sys.executable, str(program), stop_grace_seconds=0.3)
    replica = await _started(bench, provider)
    await _until(lambda: bench.folder.last_line(replica).startswith("worker"))
    worker = int(bench.folder.last_line(replica).split()[1])
    await provider.stop(replica)
    seen = await _ended(provider)
    assert seen.detail == "killed by SIGKILL"
    await _until(lambda: not _exists(worker))


async def test_workers_that_outlive_a_crashed_engine_are_killed(
    bench: Bench, tmp_path: Path
) -> None:
    program = tmp_path / "stubborn.py"
    program.write_text(_STUBBORN)
    provider = bench.provider(sys.executable, str(program))
    replica = await _started(bench, provider)
    await _until(lambda: bench.folder.last_line(replica).startswith("worker"))
    worker = int(bench.folder.last_line(replica).split()[1])
    os.kill(bench.file(replica).engine_pid, signal.SIGKILL)
    await _ended(provider)
    await _until(lambda: not _exists(worker))


async def test_an_engine_without_a_keeper_is_ended_after_the_orphan_time(bench: Bench) -> None:
    provider = bench.provider(orphan_seconds=1.0)
    replica = await _started(bench, provider)
    file = bench.file(replica)
    for _ in range(10):
        bench.folder.touch()
        await asyncio.sleep(0.2)
    assert is_running(file.engine_pid, file.engine_started), "a keeper lives, so must the engine"
    seen = await _ended(provider)
    assert seen.detail.startswith("its keeper was lost")
    assert not is_running(file.engine_pid, file.engine_started)


async def test_an_engine_whose_folder_was_taken_away_is_ended(bench: Bench) -> None:
    replica = await _started(bench, bench.provider())
    file = bench.file(replica)
    bench.folder.retire(replica, kept=1)
    await _until(lambda: not is_running(file.engine_pid, file.engine_started))
    await _until(lambda: not is_running(file.supervisor_pid, file.supervisor_started))


async def test_an_engine_whose_supervisor_was_killed_is_orphaned_and_can_be_ended(
    bench: Bench,
) -> None:
    provider = bench.provider()
    replica = await _started(bench, provider)
    file = bench.file(replica)
    os.kill(file.supervisor_pid, signal.SIGKILL)
    await _until(lambda: not is_running(file.supervisor_pid, file.supervisor_started))
    assert (await _only(provider)).phase is Phase.ORPHANED
    await provider.stop(replica)
    await _ended(provider)
    assert not is_running(file.engine_pid, file.engine_started)


async def test_workers_without_engine_and_supervisor_are_found_by_their_log(
    bench: Bench, tmp_path: Path
) -> None:
    program = tmp_path / "stubborn.py"
    program.write_text(_STUBBORN)
    provider = bench.provider(sys.executable, str(program), stop_grace_seconds=0.1)
    replica = await _started(bench, provider)
    await _until(lambda: bench.folder.last_line(replica).startswith("worker"))
    file = bench.file(replica)
    os.kill(file.supervisor_pid, signal.SIGKILL)
    await _until(lambda: not is_running(file.supervisor_pid, file.supervisor_started))
    os.kill(file.engine_pid, signal.SIGKILL)
    await _until(lambda: not is_running(file.engine_pid, file.engine_started))
    assert (await _only(provider)).phase is Phase.ORPHANED
    await provider.stop(replica)
    await asyncio.sleep(0.2)
    await provider.stop(replica)
    await _ended(provider)


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is none of ours; it ends when its input does."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.communicate(b"\n")


async def test_a_process_with_the_same_pid_and_another_start_time_is_not_touched(
    bench: Bench, stranger: subprocess.Popen[bytes]
) -> None:
    provider = bench.provider("no-such-program")
    replica = await _started(bench, provider)
    path = bench.folder.folder_of(replica) / "state.json"
    state = json.loads(path.read_bytes()) | {
        "supervisor_pid": stranger.pid,
        "supervisor_started": 1,
        "engine_pid": stranger.pid,
        "engine_started": 1,
        "exit_code": None,
    }
    path.write_text(json.dumps(state))
    assert (await _only(provider)).phase is Phase.ENDED
    await provider.stop(replica)
    assert stranger.poll() is None


async def test_nothing_of_an_earlier_boot_is_alive(bench: Bench) -> None:
    provider = bench.provider()
    replica = await _started(bench, provider)
    path = bench.folder.folder_of(replica) / "state.json"
    state = path.read_text()
    path.write_text(json.dumps(json.loads(state) | {"boot": "another"}))
    assert (await _only(provider)).detail == "the host was restarted"
    path.write_text(state)


async def test_the_log_stays_within_its_limit(bench: Bench) -> None:
    noisy = "import time\nfor n in range(400):\n  print('x' * 500, flush=True); time.sleep(0.005)"
    provider = bench.provider(sys.executable, "-c", noisy, engine_log_bytes_max=20_000)
    replica = await _started(bench, provider)
    await _ended(provider)
    log = bench.folder.log_of(replica)
    # 200 KB were written. A quarter of a second of it may come on top of the limit.
    assert log.stat().st_size < 20_000 + 60_000
    assert log.with_name("engine.log.1").stat().st_size < 20_000 + 60_000


async def test_an_engine_gets_the_recipes_environment_and_none_of_our_settings(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_STORE__DSN", "postgres://secret")
    monkeypatch.setenv("INHERITED", "yes")
    show = (
        "import os; print({k: os.environ.get(k) for k in ('PENSTOCK_STORE__DSN','INHERITED','X')})"
    )
    provider = bench.provider(sys.executable, "-c", show, environment={"X": "{port}"})
    replica = await _started(bench, provider)
    await _ended(provider)
    line = bench.folder.last_line(replica)
    port = bench.file(replica).port
    assert line == f"{{'PENSTOCK_STORE__DSN': None, 'INHERITED': 'yes', 'X': '{port}'}}"


async def test_taken_ports_are_passed_over_and_none_left_is_said(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        provider = bench.provider(port_first=port, port_last=port)
        with pytest.raises(NoReplica, match=f"{port} and {port}"):
            await provider.start(ReplicaId(new_id()), bench.want)
    replica = await _started(bench, provider)
    assert bench.file(replica).port == port


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def _exists(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
