"""The first `penstock up` on a full disk ends with one line that says so."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.cli_run import run_up


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 20 MB. Mounting needs root, which not every machine gives."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=20m,mode=755", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_told_in_one_line(small_disk: Path) -> None:
    state = small_disk / "state"
    done = run_up(state, "--imitate", "--port", "0", "--metrics-port", "0")
    assert done.returncode == 3
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert errors[0].startswith(f"error: The disk is full: 19 MiB are free at {state}/postgres")
    assert errors[0].endswith("Make room, or use another folder.")
    assert "Traceback" not in done.stderr
