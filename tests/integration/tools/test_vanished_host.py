"""A sandbox host that vanishes from the network is noticed in two seconds, not at a call's end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_a_host_without_a_network_is_noticed_within_two_seconds() -> None:
    program = [sys.executable, "-m", "tests.integration.cells.vanishing_host"]
    path = {"PATH": os.defpath, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(
        ["unshare", "--net", *program],
        cwd=ROOT, env=path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 2.2
