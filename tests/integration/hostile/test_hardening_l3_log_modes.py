"""The logs of `penstock up` are readable by its user alone."""

import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.cli_run import Up, chat

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not tmp_path: as root its parents are shut to the user that Postgres runs as.
    made = Path(tempfile.mkdtemp(prefix="penstock-test-"))
    yield made
    shutil.rmtree(made)


@pytest.fixture
def up(folder: Path) -> Iterator[Up]:
    """A run that launches its own engine, in a folder where an earlier version left its log."""
    entries = folder / "entries"
    entries.mkdir()
    program = [sys.executable, "-m", "penstock.testing.scripted_engine", "--model", "launched"]
    (entries / "launched.toml").write_text(
        'id = "@acme/launched"\nfamily = "openai"\ncontext_tokens = 8192\n[recipe]\n'
        f'served_name = "launched"\ncommand = {json.dumps([*program, "--port", "{port}"])}\n'
    )
    (folder / "penstock.toml").write_text(f'[catalogue]\nfolder = "{entries}"\n')
    logs = folder / "state" / "logs"
    logs.mkdir(parents=True, mode=0o755)
    (logs / "gateway.log").write_text("a line of an earlier run\n")
    (logs / "gateway.log").chmod(0o644)
    run = Up(folder / "state", "--model", "@acme/launched", "--json")
    yield run
    run.close()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_every_log_has_mode_0600_and_their_folder_0700(up: Up) -> None:
    assert chat(up.ready()) == 200
    found = [path for path in up.state.rglob("*.log*") if path.is_file()]
    names = {path.name for path in found}
    parts = {"gateway.log", "keeper.log", "control.log"}
    assert names >= parts | {"postgres.log", "engine.log", "supervisor.log"}
    assert {str(path): oct(mode(path)) for path in found if mode(path) != 0o600} == {}
    assert mode(up.state / "logs") == 0o700
    assert "a line of an earlier run" in (up.state / "logs" / "gateway.log").read_text()
    assert up.signal(signal.SIGTERM) == 0
