"""Measures the delay of this process's event loop, which measured times include."""

import asyncio
from typing import Final

from penstock.clock import Clock

_EVERY_SECONDS: Final = 0.02
_LATE_MS_MAX: Final = 2_000


class LoopLag:
    """Counts delays by the millisecond, in fixed memory. Run `watch` beside the load."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counts = [0] * (_LATE_MS_MAX + 1)
        self._seen = 0

    async def watch(self) -> None:
        """Measure until cancelled."""
        while True:
            due = self._clock.monotonic() + _EVERY_SECONDS
            await asyncio.sleep(_EVERY_SECONDS)
            self.note((self._clock.monotonic() - due) * 1000)

    def note(self, late_ms: float) -> None:
        self._counts[min(max(int(late_ms), 0), _LATE_MS_MAX)] += 1
        self._seen += 1

    def quantile_ms(self, share: float) -> float:
        """Return the delay that `share` of all measurements do not exceed; 0 without any."""
        left = share * self._seen
        for late_ms, count in enumerate(self._counts):
            left -= count
            if count and left <= 0:
                return float(late_ms)
        return 0.0
