"""Measures how fast a model's requests end, to estimate a wait. Pure: time is passed in.

Counting is one addition, because every request does it; the average is computed beside the path.
"""

import math
from typing import Final

# A shorter interval gives no rate; what ended in it counts at the next measurement.
_SHORTEST_SECONDS: Final = 1e-3


class DrainRate:
    """Requests per second of busy time, an average that decays over `memory_seconds`."""

    def __init__(self, memory_seconds: float) -> None:
        self._memory_seconds = memory_seconds
        self._looked_at: float | None = None
        self._ended = 0
        self._rate = 0.0
        # The measured share of the average: at first it is small, and the rest must not count.
        self._weight = 0.0

    def note(self) -> None:
        """Count one request that ended."""
        self._ended += 1

    def measure(self, now: float, *, is_busy: bool) -> None:
        """Add what has ended since the last call to the average, if the model was busy."""
        before = self._looked_at
        if before is not None and now - before < _SHORTEST_SECONDS:
            return
        ended, self._ended = self._ended, 0
        self._looked_at = now
        if before is None or not is_busy:
            return
        passed = now - before
        kept = math.exp(-passed / self._memory_seconds)
        self._rate = self._rate * kept + ended / passed * (1 - kept)
        self._weight = self._weight * kept + (1 - kept)

    def seconds_for(self, count: int) -> float | None:
        """Return the time until `count` more have ended; None where no end was measured."""
        if self._rate <= 0:
            return None
        return count * self._weight / self._rate
