"""`penstock up` as a person runs it: one machine, one command, and nothing left behind."""

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest
from typer.testing import CliRunner, Result

from penstock.cli.commands import app
from penstock.testing import ScriptedEngine

PENSTOCK = (sys.executable, "-m", "penstock")
READY_SECONDS = 60.0
T = TypeVar("T")


class Up:
    """One run of `penstock up` in a state folder. Ends with the test, by pid."""

    def __init__(self, state: Path, *options: str) -> None:
        self.state = state
        self.port = free_port()
        ports = ("--port", str(self.port), "--metrics-port", str(free_port()))
        self.process = subprocess.Popen(
            [*PENSTOCK, "up", "--state", str(state), *ports, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=state.parent,
        )
        self.out: list[str] = []
        self.err: list[str] = []
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self.out.extend, args=(self.process.stdout,)),
            threading.Thread(target=self.err.extend, args=(self.process.stderr,)),
        ]
        for reader in self._readers:
            reader.start()

    def wait_for(self, mark: str) -> str:
        """The first line on standard output that begins with `mark`."""

        def look() -> str | None:
            if self.process.poll() is not None:
                pytest.fail(f"up ended with {self.process.returncode}: {''.join(self.err)}")
            return next((line for line in list(self.out) if line.startswith(mark)), None)

        return until(look, READY_SECONDS)

    def ready(self) -> dict[str, Any]:
        """The one line of --json."""
        found: dict[str, Any] = json.loads(self.wait_for("{"))
        return found

    def signal(self, number: signal.Signals, seconds: float = 30.0) -> int:
        """Send it to `up` alone, and wait for its end."""
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()
        for pid in pids_with(self.state):
            os.kill(pid, signal.SIGKILL)
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(look: Callable[[], T | None], seconds: float) -> T:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(0.05)
    pytest.fail(f"not so after {seconds} s")


def pids_with(state: Path) -> list[int]:
    """Every process that has the state folder in its command line, environment or output."""
    mark = os.fsencode(state)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            words += os.fsencode((entry / "fd" / "1").readlink())
        except OSError:
            continue
        if mark in words:
            found.append(int(entry.name))
    return found


def chat(ready: dict[str, Any], key: str | None = None) -> int:
    try:
        return httpx.post(
            f"{ready['base_url']}/v1/chat/completions",
            headers={"authorization": f"Bearer {key or ready['key']}"},
            json={"model": ready["model"], "messages": [{"role": "user", "content": "Hi"}]},
        ).status_code
    except httpx.TransportError:
        return 0


def run_up(state: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """A run that shall end by itself."""
    command = [*PENSTOCK, "up", "--state", str(state), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def run(state: Path, *arguments: str) -> Result:
    """A short command, in this process: starting Python costs more than all that it does."""
    return CliRunner().invoke(app, [*arguments, "--state", str(state)])


def run_json(state: Path, *arguments: str) -> Any:
    done = run(state, *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


@pytest.fixture(autouse=True)
def _log_stays_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    root.handlers[:], root.level = before


@pytest.fixture
def state() -> Iterator[Path]:
    # Not tmp_path: as root its parents are shut to the user that Postgres runs as.
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    yield folder / "state"
    shutil.rmtree(folder)


@pytest.fixture
def start(state: Path) -> Iterator[Callable[..., Up]]:
    """Starts runs in the test's state folder, and ends them all."""
    runs: list[Up] = []

    def begin(*options: str) -> Up:
        runs.append(Up(state, *options))
        return runs[-1]

    yield begin
    for each in runs:
        each.close()


@pytest.fixture(scope="module")
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(model="acme/answers", max_model_len=4096) as running:
        yield running


@pytest.fixture(scope="module")
def shared(engine: ScriptedEngine) -> Iterator[Up]:
    """One run with two workers, for tests that repair what they break."""
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    up = Up(folder / "state", "--attach", engine.url, "--workers", "2", "--json")
    try:
        up.ready()
        yield up
    finally:
        up.close()
        shutil.rmtree(folder)


def test_printed_curl_line_works_and_the_next_run_has_the_same_account(
    start: Callable[..., Up], state: Path, engine: ScriptedEngine
) -> None:
    first = start("--attach", engine.url)
    line = first.wait_for("curl ")
    answer = subprocess.run(line, shell=True, capture_output=True, check=True, timeout=30)
    assert json.loads(answer.stdout)["choices"][0]["message"]["content"]
    assert first.signal(signal.SIGINT) == 0
    assert pids_with(state) == []
    assert "acme/answers, which is not in the catalogue" in "".join(first.err)
    kept = json.loads((state / "account.json").read_text())
    assert (state / "account.json").stat().st_mode & 0o777 == 0o600

    second = start("--attach", engine.url, "--json")
    ready = second.ready()
    assert (ready["account"], ready["key"]) == (kept["account"], kept["secret"])
    assert chat(ready) == 200
    # The entry that the first run wrote is used, not written again.
    assert "not in the catalogue" not in "".join(second.err)
    assert second.signal(signal.SIGTERM) == 0
    assert pids_with(state) == []
    assert not (state / "running.json").exists()
    assert not (state / "run").exists()


def test_launched_engine_is_adopted_after_a_kill_and_ended_by_sigterm(
    start: Callable[..., Up], state: Path
) -> None:
    entries = state.parent / "entries"
    entries.mkdir()
    program = [sys.executable, "-m", "penstock.testing.scripted_engine", "--model", "launched"]
    command = json.dumps([*program, "--port", "{port}"])
    (entries / "launched.toml").write_text(
        'id = "@acme/launched"\nfamily = "openai"\ncontext_tokens = 8192\n'
        f'[recipe]\nserved_name = "launched"\ncommand = {command}\n'
    )
    (state.parent / "penstock.toml").write_text(f'[catalogue]\nfolder = "{entries}"\n')

    first = start("--model", "@acme/launched", "--json")
    ready = first.ready()
    assert chat(ready) == 200
    replica = run_json(state, "doctor")
    assert [c["verdict"] for c in replica if c["name"].endswith("arguments")] == ["warn"]
    # One supervisor, one engine.
    engines = [pid for pid in pids_with(state) if _is_engine(pid)]
    assert len(engines) == 2

    first.signal(signal.SIGKILL)
    until(lambda: pids_with(state) == engines, 15.0)

    second = start("--model", "@acme/launched", "--json")
    ready = second.ready()
    assert chat(ready) == 200
    assert [pid for pid in pids_with(state) if _is_engine(pid)] == engines
    assert second.signal(signal.SIGTERM) == 0
    assert pids_with(state) == []


def test_killed_gateway_is_started_again(shared: Up) -> None:
    ready = shared.ready()
    workers = [pid for pid in pids_with(shared.state) if _is_worker(pid)]
    assert len(workers) == 2
    os.kill(ready["pids"]["gateway"], signal.SIGKILL)
    # Its workers end too: they would hold the port against the new ones.
    until(lambda: not set(workers) & set(pids_with(shared.state)), 10.0)
    until(lambda: chat(ready) == 200, 30.0)
    assert any("gateway ended (killed by SIGKILL)" in line for line in shared.err)


def test_killed_postgres_is_started_again(shared: Up) -> None:
    ready = shared.ready()
    os.kill(ready["pids"]["postgres"], signal.SIGKILL)
    assert chat(ready) == 200
    until(lambda: any("postgres ended; starting it again" in line for line in shared.err), 10.0)
    until(lambda: run(shared.state, "account", "list").exit_code == 0, 30.0)
    assert run_json(shared.state, "account", "list")[0]["id"] == ready["account"]


def test_accounts_and_keys_made_by_command_are_heeded(shared: Up) -> None:
    ready, state = shared.ready(), shared.state
    account = run_json(state, "account", "create", "second")
    assert [a["name"] for a in run_json(state, "account", "list")] == ["local", "second"]
    key = run_json(state, "key", "create", "--account", account["id"], "--name", "laptop")
    assert chat(ready, key["secret"]) == 200
    operator = run_json(state, "key", "create", "--operator")
    assert chat(ready, operator["secret"]) == 403

    assert run_json(state, "account", "block", account["id"])["is_blocked"] is True
    until(lambda: chat(ready, key["secret"]) == 403, 5.0)
    assert run_json(state, "account", "unblock", account["id"])["is_blocked"] is False
    until(lambda: chat(ready, key["secret"]) == 200, 5.0)
    assert run_json(state, "key", "revoke", key["id"]) == {"id": key["id"], "is_revoked": True}
    until(lambda: chat(ready, key["secret"]) == 401, 5.0)
    listed = run_json(state, "key", "list", "--account", account["id"])
    assert [(k["id"], k["is_revoked"]) for k in listed] == [(key["id"], True)]
    assert key["secret"] not in json.dumps(listed)


def test_what_is_not_there_has_an_exit_code_of_its_own(shared: Up) -> None:
    missing = run(shared.state, "account", "block", "0" * 32)
    assert (missing.exit_code, missing.stdout) == (4, "")
    assert missing.stderr == f"error: There is no account {'0' * 32}.\n"
    assert run(shared.state, "key", "revoke", "nothing").exit_code == 4


def test_doctor_finds_a_running_installation_well(shared: Up) -> None:
    checks = {check["name"]: check for check in run_json(shared.state, "doctor")}
    engine = next(name for name in checks if name.startswith("engine "))
    names = {"postgres", "migrations", "clock", "catalogue", "disk", f"port {shared.port}"}
    names |= {engine, f"{engine} usage", f"{engine} prefix cache"}
    assert {name: checks[name]["verdict"] for name in names} == dict.fromkeys(names, "ok")
    assert checks[f"port {shared.port}"]["finding"] == "is in use by Penstock"


def test_migrate_of_a_running_installation_has_nothing_to_do(shared: Up) -> None:
    assert run_json(shared.state, "migrate") == {"applied": []}
    assert run_json(shared.state, "migrate", "--check") == {"pending": []}


def test_busy_port_and_busy_folder_are_told_by_name(
    shared: Up, state: Path, engine: ScriptedEngine
) -> None:
    options = ("--attach", engine.url, "--metrics-port", "0")
    busy = run_up(state, *options, "--port", str(shared.port))
    assert busy.returncode == 5
    assert f"Port {shared.port} on 127.0.0.1 is in use" in busy.stderr
    assert "--port" in busy.stderr
    twice = run_up(shared.state, *options, "--port", "0")
    assert twice.returncode == 5
    assert f"Another `penstock up` runs in {shared.state}" in twice.stderr


def test_absent_engine_is_told_before_anything_is_started(state: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    failed = run_up(state, "--attach", url)
    assert failed.returncode == 1
    assert url in failed.stderr
    assert not (state / "postgres").exists()


def test_killed_up_leaves_nothing_running(shared: Up) -> None:
    """The last one to use this run."""
    # Itself, Postgres, keeper, control, the gateway and its two workers.
    assert len(pids_with(shared.state)) >= 7
    shared.signal(signal.SIGKILL)
    until(lambda: not pids_with(shared.state), 15.0)


def _is_engine(pid: int) -> bool:
    programs = (b"penstock.fleet.supervisor", b"penstock.testing.scripted_engine")
    return any(program in _command(pid) for program in programs)


def _is_worker(pid: int) -> bool:
    return b"spawn_main" in _command(pid)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
