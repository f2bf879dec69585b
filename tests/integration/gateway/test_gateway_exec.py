"""`penstock gateway` becomes a process of its own: what that must not change."""

import subprocess
import sys
from pathlib import Path

from tests.integration.cells.gateway_process import CHILD_ENVIRONMENT

from penstock.cli.ports import free_port

PROGRAM = Path(sys.executable).with_name("penstock")


def test_nothing_is_imported_from_the_working_folder_and_errors_are_one_line(
    tmp_path: Path,
) -> None:
    (tmp_path / "httptools.py").write_text("open('taken', 'w').close()\n")
    settings = {
        "PENSTOCK_STORE_DSN": "postgresql://127.0.0.1:1/nowhere",
        "PENSTOCK_INGRESS_PORT": str(free_port("127.0.0.1")),
        "PENSTOCK_INGRESS_METRICS_PORT": "0",
        # A folder that nobody can make.
        "PENSTOCK_INGRESS_RUN_FOLDER": "/proc/nowhere/run",
    }
    ran = subprocess.run(
        [PROGRAM, "gateway"],
        env={**CHILD_ENVIRONMENT, **settings, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert ran.returncode == 1, ran.stderr
    assert ran.stderr.strip().splitlines()[-1].startswith("error: ")
    assert "Traceback" not in ran.stderr
    assert "/proc/nowhere" in ran.stderr
    assert not (tmp_path / "taken").exists()
