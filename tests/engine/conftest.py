"""A whole Penstock with real engines: `penstock up` in an empty folder, as the README says."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import msgspec
import pytest
from tests.engine.real_cell import Cell

READY_SECONDS = 420


@pytest.fixture(scope="session")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cell]:
    folder = tmp_path_factory.mktemp("up")
    command = [
        sys.executable,
        "-m",
        "penstock",
        "up",
        "--json",
        "--port",
        "0",
        "--metrics-port",
        "0",
    ]
    command += ["--model", "smollm2", "--model", "tiny-vision"]
    log = folder / "up.log"
    with (
        log.open("wb") as errors,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors) as process,
    ):
        watchdog = threading.Timer(READY_SECONDS, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            watchdog.cancel()
            assert line, log.read_text()[-3000:]
            yield msgspec.convert(json.loads(line), Cell)
        finally:
            watchdog.cancel()
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(120)
            except subprocess.TimeoutExpired:
                process.kill()
