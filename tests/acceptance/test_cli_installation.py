"""Commands against a running `penstock up`, and what it does when parts of it are killed."""

import json
import logging
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.cli_run import (
    PENSTOCK,
    Up,
    chat,
    command_of,
    free_port,
    is_alive,
    pids_with,
    run,
    run_json,
    run_up,
    until,
)

from penstock.config import environment_for
from penstock.store.embedded import EmbeddedPostgres
from penstock.testing import ScriptedEngine

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def _log_stays_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before = (list(root.handlers), root.level)
    yield
    root.handlers[:], root.level = before


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


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """For sockets: their path may have 107 bytes, and the one of `tmp_path` is long."""
    with tempfile.TemporaryDirectory(prefix="p-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_gateway_alone_ends_with_code_0_when_told_to(
    workers: str, shared: Up, tmp_path: Path, short_folder: Path
) -> None:
    port = free_port()
    settings = {
        "store.dsn": EmbeddedPostgres(shared.state / "postgres").dsn,
        "ingress.port": port,
        "ingress.metrics_port": 0,
        "ingress.workers": int(workers),
    }
    environment = {**environment_for(settings), "TMPDIR": str(short_folder)}
    # Its journal and its signals are in its working directory.
    with subprocess.Popen([*PENSTOCK, "gateway"], env=environment, cwd=tmp_path) as gateway:
        try:
            until(lambda: is_alive(port), 30.0)
        finally:
            gateway.terminate()
        assert gateway.wait(30) == 0
    assert list(short_folder.iterdir()) == []


def test_busy_port_and_busy_folder_are_told_by_name(
    shared: Up, tmp_path: Path, engine: ScriptedEngine
) -> None:
    options = ("--attach", engine.url, "--metrics-port", "0")
    busy = run_up(tmp_path, *options, "--port", str(shared.port))
    assert busy.returncode == 5
    assert f"Port {shared.port} on 127.0.0.1 is in use" in busy.stderr
    assert "--port" in busy.stderr
    twice = run_up(shared.state, *options, "--port", "0")
    assert twice.returncode == 5
    assert f"Another `penstock up` runs in {shared.state}" in twice.stderr


def test_killed_up_leaves_nothing_running(shared: Up) -> None:
    """The last one to use this run."""
    # Itself, Postgres, keeper, control, the gateway and its two workers.
    assert len(pids_with(shared.state)) >= 7
    shared.signal(signal.SIGKILL)
    until(lambda: not pids_with(shared.state), 15.0)


def _is_worker(pid: int) -> bool:
    return b"spawn_main" in command_of(pid)
