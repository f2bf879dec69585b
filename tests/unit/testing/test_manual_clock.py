"""Time that a test moves."""

from penstock.clock import Clock
from penstock.testing import ManualClock


def _read(clock: Clock) -> tuple[float, float]:
    return clock.now(), clock.monotonic()


def test_time_moves_only_when_advanced() -> None:
    clock = ManualClock(now=100.0, monotonic=5.0)
    assert _read(clock) == (100.0, 5.0)
    clock.advance(2.5)
    assert _read(clock) == (102.5, 7.5)
