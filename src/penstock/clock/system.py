"""The clock seam: SystemClock in production, testing.manual_clock.ManualClock in simulations."""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for durations."""

    def now(self) -> float: ...

    def monotonic(self) -> float: ...


class SystemClock:
    """The machine's own clock."""

    # The C functions themselves, without a Python frame: each request reads the clock ten times.
    now = staticmethod(time.time)  # noqa: TID251 - the one place that asks
    monotonic = staticmethod(time.monotonic)
