"""Limits running requests; the others wait by priority (lower first), then by arrival."""

import asyncio
import heapq


class QueueFullError(Exception):
    """The queue already holds as many requests as the engine lets wait."""


class Slots:
    """`limit` running at once, at most `queue_limit` waiting (None: any number)."""

    def __init__(self, limit: int, queue_limit: int | None) -> None:
        self._limit = limit
        self._queue_limit = queue_limit
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._arrivals = 0
        self.running = 0
        self.waiting = 0

    def check_room(self) -> None:
        """Raise QueueFullError if a request would have to wait and the queue is full."""
        if self.running < self._limit or self._queue_limit is None:
            return
        if self.waiting >= self._queue_limit:
            raise QueueFullError

    async def acquire(self, priority: int) -> None:
        if self.running < self._limit and not self.waiting:
            self.running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrivals += 1
        heapq.heappush(self._waiting, (priority, self._arrivals, turn))
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            else:
                self.waiting -= 1
                turn.cancel()
            raise

    def release(self) -> None:
        """Give the slot to the first request in the queue."""
        self.running -= 1
        while self._waiting and self.running < self._limit:
            turn = heapq.heappop(self._waiting)[2]
            if not turn.cancelled():
                self.waiting -= 1
                self.running += 1
                turn.set_result(None)
