"""The machine's clock and the manual one have the same meaning."""

import time

from penstock.clock import Clock, SystemClock
from penstock.testing.manual_clock import ManualClock


def test_system_clock_gives_unix_time_and_a_monotonic_time() -> None:
    clock = SystemClock()
    assert abs(clock.now() - time.time_ns() / 1e9) < 5
    first = clock.monotonic()
    assert clock.monotonic() >= first


def test_both_clocks_satisfy_the_seam() -> None:
    clocks: list[Clock] = [SystemClock(), ManualClock(now=5.0, monotonic=1.0)]
    assert [clock.now() > 0 for clock in clocks] == [True, True]
    assert clocks[1].monotonic() == 1.0
