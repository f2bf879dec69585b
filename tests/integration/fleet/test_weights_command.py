"""`penstock models fetch` on a terminal, interrupted."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT

from penstock.fleet.weights.weight_folder import bytes_in, folder_of, is_complete

SIZE = 2 * 10**9
ENTRY = """
id = "@acme/good"
aliases = ["good"]
family = "openai"
context_tokens = 8192
[recipe]
command = ["serve", "{weights}", "--port", "{port}"]
[recipe.weights]
gigabytes = 0.001
"""


def test_ctrl_c_keeps_what_has_come(tmp_path: Path) -> None:
    origin, models = tmp_path / "origin", tmp_path / "models"
    origin.mkdir()
    models.mkdir()
    (models / "good.toml").write_text(f'{ENTRY}source = "{origin}"\n')
    # A hole in a file takes no disk, and is copied for long enough to be interrupted.
    with (origin / "model.safetensors").open("wb") as file:
        file.truncate(SIZE)
    target = folder_of(str(tmp_path / "weights"), str(origin))
    ours, theirs = pty.openpty()
    fetching = subprocess.Popen(
        [sys.executable, "-m", "penstock", "models", "fetch", "good"],
        stderr=theirs,
        stdout=subprocess.DEVNULL,
        cwd=tmp_path,
        env={
            **CHILD_ENVIRONMENT,
            "PENSTOCK_CATALOGUE_FOLDER": str(models),
            "PENSTOCK_FLEET_WEIGHTS_FOLDER": str(tmp_path / "weights"),
            "TERM": "xterm",
        },
    )
    os.close(theirs)
    deadline = time.monotonic() + 30
    while not bytes_in(target):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    fetching.send_signal(signal.SIGINT)
    shown = b""
    while chunk := _read(ours):
        shown += chunk
    os.close(ours)
    assert fetching.wait(10) == 1
    assert b"Fetch again" in shown
    assert 0 < bytes_in(target) < SIZE
    assert not is_complete(target, str(origin))


def _read(terminal: int) -> bytes:
    """What a terminal shows next; nothing when the program has ended."""
    try:
        return os.read(terminal, 4096)
    except OSError:
        return b""
