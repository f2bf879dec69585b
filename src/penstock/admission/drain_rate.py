"""How fast a model's requests end, measured, and what that says of a wait. Pure: time is passed in.

Counting is one addition, because every request does it; the average is worked out beside the path.
"""

import math
from typing import Final

# Two looks within less say nothing of a rate; what ended between them counts at the next one.
_SHORTEST_SECONDS: Final = 1e-3


class DrainRate:
    """Requests per second of busy time, an average whose memory fades over `memory_seconds`."""

    def __init__(self, memory_seconds: float) -> None:
        self._memory_seconds = memory_seconds
        self._looked_at: float | None = None
        self._ended = 0
        self._rate = 0.0
        # How much of the average is measured: at first little is, and the rest must not count.
        self._weight = 0.0

    def note(self) -> None:
        """One has ended."""
        self._ended += 1

    def measure(self, now: float, *, is_busy: bool) -> None:
        """Take what has ended since the last time into the average, if it was as fast as it can."""
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
        """How long until so many more have ended; None where nothing was seen to end."""
        if self._rate <= 0:
            return None
        return count * self._weight / self._rate
