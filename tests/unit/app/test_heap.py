"""What is free inside the heap goes back to the system, but not after each request."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.app.heap import give_back


def _anonymous_kilobytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise AssertionError("the kernel tells no RssAnon")


def test_holes_between_what_is_kept_are_given_back() -> None:
    kept = [b"x" * (1000 if number % 2 else 60_000) for number in range(1000)]
    filled = _anonymous_kilobytes()
    # Free again, but for a thin slice between each two.
    kept = kept[1::2]
    if not give_back():
        pytest.skip("the C library has no malloc_trim")
    assert filled - _anonymous_kilobytes() > 15_000
    assert len(kept) == 500


def test_giving_back_leaves_nothing_for_the_garbage_collector() -> None:
    give_back()
    gc.collect()
    before = len(gc.get_objects())
    gc.disable()
    try:
        for _ in range(10):
            give_back()
        assert len(gc.get_objects()) < before + 10
    finally:
        gc.enable()


_BODIES = """
import resource, sys
from penstock.app.heap import keep_between_requests
if sys.argv[1] == "kept" and not keep_between_requests():
    sys.exit(3)
for _ in range(20):
    bodies = [b"x" * 300_000, b"x" * 300_000]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    bodies = [b"x" * 300_000, b"x" * 300_000]
    del bodies
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_long_bodies_one_after_the_other_have_the_same_memory() -> None:
    faults = dict[str, int]()
    for way in ("plain", "kept"):
        run = subprocess.run(
            [sys.executable, "-c", _BODIES, way], capture_output=True, text=True, check=False
        )
        if run.returncode == 3:
            pytest.skip("the C library has no mallopt")
        faults[way] = int(run.stdout)
    assert faults["kept"] < 100, "less than one for each pair of bodies"
    assert faults["plain"] > 1000, "what it does by itself, or this test shows nothing"
