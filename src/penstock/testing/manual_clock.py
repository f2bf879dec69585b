"""A clock that stands still until a test moves it. It satisfies `penstock.clock.Clock`."""


class ManualClock:
    """Wall and monotonic time that advance together, and only by `advance`."""

    def __init__(self, *, now: float = 1_800_000_000.0, monotonic: float = 1000.0) -> None:
        self._now = now
        self._monotonic = monotonic

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        """Move both times forward; `seconds` must not be negative."""
        assert seconds >= 0
        self._now += seconds
        self._monotonic += seconds
