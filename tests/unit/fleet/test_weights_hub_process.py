"""The process that asks Hugging Face: what it writes blocks nobody, and it outlives no keeper."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.fleet.weights.hub_source import HubSource
from penstock.fleet.weights.weight_files import FetchFailed
from penstock.records.source_file import SourceFile

# The library takes its time to be imported, and holds a lock for as long as its process lives.
_SLOW_LIBRARY = """
import fcntl, os, pathlib, time
here = pathlib.Path(__file__).parent
lock = (here / "lock").open("ab")
fcntl.flock(lock, fcntl.LOCK_EX)
(here / "pid.new").write_text(str(os.getpid()))
(here / "pid.new").rename(here / "pid")
while not (here / "imported").exists():
    time.sleep(0.01)
HfApi = None
def snapshot_download(*names, **options):
    time.sleep(60)
"""
_LOUD_LIBRARY = """
import sys
class HfApi:
    def model_info(self, *names, **options):
        sys.stderr.write("retrying\\n" * 100_000)
        raise OSError("the list is away")
def snapshot_download(*names, **options):
    sys.stdout.write("so far\\n" * 100_000)
    sys.stderr.write("retrying\\n" * 100_000)
    raise OSError("the server is away")
"""


class Watch:
    """Stops a fetch that takes too long."""

    def __init__(self) -> None:
        self._end_at = time.monotonic() + 20

    def on_bytes(self, done: int, total: int) -> None:
        assert total == 5

    def on_wait(self) -> None:
        raise AssertionError("nobody else fetches")

    def is_stopped(self) -> bool:
        return time.monotonic() > self._end_at


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a double of Hugging Face's library, which the process finds first."""
    folder = tmp_path / "library" / "huggingface_hub"
    (folder / "utils").mkdir(parents=True)
    (folder / "utils" / "__init__.py").touch()
    (folder / "utils" / "tqdm.py").write_text("def disable_progress_bars(): pass\n")
    paths = [str(folder.parent), *sys.path]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
    monkeypatch.syspath_prepend(folder.parent)
    return folder


def test_a_library_that_logs_a_lot_does_not_block(library: Path, tmp_path: Path) -> None:
    (library / "__init__.py").write_text(_LOUD_LIBRARY)
    source = HubSource("owner/name")
    with pytest.raises(FetchFailed, match=r"Hugging Face: OSError: the server is away$"):
        source.bring([SourceFile("a", 5)], tmp_path / "weights", Watch())
    with pytest.raises(FetchFailed, match=r"Hugging Face: OSError: the list is away$"):
        source.list(10)


def test_a_keeper_killed_while_the_library_is_imported_leaves_no_download(
    library: Path, tmp_path: Path
) -> None:
    (library / "__init__.py").write_text(_SLOW_LIBRARY)
    program = (
        "from pathlib import Path\n"
        "from penstock.fleet.weights.hub_source import HubSource\n"
        "class Watch:\n"
        "    def on_bytes(self, done, total): pass\n"
        "    def is_stopped(self): return False\n"
        f"HubSource('owner/name').bring([], Path({str(tmp_path / 'weights')!r}), Watch())\n"
    )
    keeper = subprocess.Popen([sys.executable, "-c", program])
    try:
        _until((library / "pid").exists)
    finally:
        keeper.kill()
        keeper.wait(10)
    try:
        (library / "imported").touch()
        _until(lambda: _is_free(library / "lock"))
    except AssertionError:
        os.kill(int((library / "pid").read_text()), signal.SIGKILL)
        raise


def _is_free(path: Path) -> bool:
    with path.open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _until(claim: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not claim():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)
