"""What a worker's loop does now and then beside answering, piece by piece. Asks nobody the time."""

from collections.abc import Awaitable, Callable

# Does one short piece; whether that was all for now.
Piece = Callable[[], Awaitable[bool]]


class PeriodicStep:
    """Due at once when it is new, and as long as there is more of it; else every so often."""

    __slots__ = ("_due_at", "_piece", "every")

    def __init__(self, piece: Piece, every: float) -> None:
        self.every = every
        self._piece = piece
        self._due_at = 0.0

    def is_due(self, now: float) -> bool:
        return now >= self._due_at

    async def do_piece(self, now: float) -> None:
        if await self._piece():
            self.put_off(now)

    def put_off(self, now: float) -> None:
        """It comes again after its time, whatever is left of it."""
        self._due_at = now + self.every
