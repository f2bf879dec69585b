"""What is free inside the heap goes back to the system."""

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
