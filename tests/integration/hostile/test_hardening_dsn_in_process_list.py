"""A DSN is on no command line of `penstock up`, however it was given."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo
from tests.acceptance.cli_run import Up, chat, pids_with
from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT

from penstock.testing import ScriptedEngine

pytestmark = pytest.mark.timeout(180)
PASSWORD = "a-password-that-nobody-may-read"


@pytest.fixture
def state() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    yield folder / "state"
    shutil.rmtree(folder)


@pytest.fixture
def engine() -> Iterator[ScriptedEngine]:
    with ScriptedEngine(model="acme/answers", max_model_len=4096) as running:
        yield running


def command_lines() -> dict[int, bytes]:
    """Of every process but this one, which has the test's name and the tests' own words."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                found[int(entry.name)] = (entry / "cmdline").read_bytes()
            except OSError:
                continue
    return found


@pytest.mark.parametrize("way", ["option", "environment"])
def test_no_process_of_up_shows_the_dsn(
    way: str, state: Path, engine: ScriptedEngine, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = make_conninfo(dsn, password=PASSWORD)
    options = ["--attach", engine.url, "--json"]
    if way == "environment":
        monkeypatch.setenv("PENSTOCK_STORE_DSN", secret)
    else:
        options += ["--dsn", secret]
    up = Up(state, *options)
    try:
        ready = up.ready()
        assert chat(ready) == 200
        assert ready["pids"]["up"] == up.process.pid
        ours = set(pids_with(state))
        assert ours >= {pid for name, pid in ready["pids"].items() if name != "postgres"}
        shown = {pid: line for pid, line in command_lines().items() if PASSWORD.encode() in line}
        assert shown == {}
        # It is the database that was named, and not an embedded one.
        assert not (state / "postgres").exists()
        assert up.signal(signal.SIGTERM) == 0
    finally:
        up.close()


def test_the_help_says_what_to_use_instead() -> None:
    command = [sys.executable, "-m", "penstock", "up", "--help"]
    environment = {**CHILD_ENVIRONMENT, "COLUMNS": "200"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "PENSTOCK_STORE_DSN" in done.stdout
