"""Journals between processes: a worker that lives, and a race for one that died."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.metering.journal_files import read_all

from penstock.clock import new_id
from penstock.metering import Journal, MeteringSettings
from penstock.metering.journal import FORMAT, take_lock

_HOLDS = """
import os, sys
from pathlib import Path
from penstock.metering import Journal, MeteringSettings
settings = MeteringSettings(segment_bytes=2**16, open_max=64)
journal = Journal(Path(sys.argv[1]), sys.argv[2], settings)
slot = journal.slots.take()
journal.open(slot, b"begun\\t")
print("ready", flush=True)
sys.stdin.read()
"""
_RACES = """
import os, sys
from pathlib import Path
from penstock.metering.journal import FORMAT, take_lock
print("ready", flush=True)
sys.stdin.readline()
lock = take_lock(Path(sys.argv[1]))
print("mine" if lock is not None else "taken", flush=True)
sys.stdin.read()
"""


@contextmanager
def child(script: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with the block."""
    command = [sys.executable, "-c", script, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert said(process) == "ready"
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_living_workers_journal_is_nobody_elses_and_a_killed_ones_is(tmp_path: Path) -> None:
    holder = new_id()
    with child(_HOLDS, tmp_path, holder) as worker:
        folder = tmp_path / f"{holder}.{FORMAT}"
        assert take_lock(folder) is None
        worker.kill()
        worker.wait()
        lock = take_lock(folder)
        assert lock is not None
    rows, left = read_all(folder)
    assert rows == []
    assert left[0].startswith(b"begun\t")


def test_dead_workers_journal_goes_to_exactly_one_of_two(tmp_path: Path) -> None:
    journal = Journal(tmp_path, new_id(), MeteringSettings(segment_bytes=2**16, open_max=64))
    with child(_RACES, journal.folder) as first, child(_RACES, journal.folder) as second:
        journal.leave()
        for racer in (first, second):
            assert racer.stdin is not None
            racer.stdin.write("go\n")
            racer.stdin.flush()
        assert sorted([said(first), said(second)]) == ["mine", "taken"]


@pytest.mark.parametrize("made", ["slots", "00000001.journal"])
def test_start_that_was_killed_half_way_leaves_a_journal_that_reads_as_empty(
    tmp_path: Path, made: str
) -> None:
    folder = tmp_path / new_id()
    folder.mkdir()
    (folder / made).touch()
    assert read_all(folder) == ([], [])
