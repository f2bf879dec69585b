"""A periodic chore of a worker's loop, done in short pieces. Time is passed in."""

from collections.abc import Awaitable, Callable

# Does one short piece; returns whether the chore is done for now.
Piece = Callable[[], Awaitable[bool]]


class PeriodicStep:
    """Due at once when new, and while pieces are left; otherwise `every` so many seconds."""

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
        """Make it due again after `every` seconds, even if pieces are left."""
        self._due_at = now + self.every
