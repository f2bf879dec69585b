"""What an operator types at a cell whose processes a test has started, and waiting for it."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.integration.cells.gateway_process import Settings

from penstock.config import environment_for


def run_penstock(folder: Path, settings: Settings, *arguments: str) -> Any:
    """`penstock …` with `--json`; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments, "--json"],
        env=environment_for(settings),
        cwd=folder,
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)


def until(is_so: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.5)
