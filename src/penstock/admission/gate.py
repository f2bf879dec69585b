"""The wait queue of each model. *Busy* means every eligible replica has its live slots in flight.

Whoever leaves lets the longest-waiting one in. Nothing here is durable: a request that waits is
held open by its client.
"""

import asyncio
import math
from collections import deque
from typing import Protocol

from penstock.admission.drain_rate import DrainRate
from penstock.admission.settings import AdmissionSettings
from penstock.clock import TimerWheel
from penstock.errors import OutOfCapacity
from penstock.records.model import ModelId


class Capacity(Protocol):
    """The port that routing satisfies."""

    def free(self, model: ModelId) -> bool: ...


class Gate:
    """`has_room` or `wait` before a replica is picked, `let_next` whenever a slot may be free.

    `note_end` is called for each request that ends and `measure` now and then beside the path: what
    ends in a second tells those who are refused when to come again.
    """

    def __init__(self, capacity: Capacity, settings: AdmissionSettings, wheel: TimerWheel) -> None:
        self._capacity = capacity
        self._settings = settings
        self._wheel = wheel
        self._waiting: dict[ModelId, deque[asyncio.Future[None]]] = {}
        # Models of which one was let in and has not come yet: its slot does not count as taken.
        self._coming: set[ModelId] = set()
        self._drains: dict[ModelId, DrainRate] = {}

    def has_room(self, model: ModelId) -> bool:
        """Whether a request may go on at once: a slot is free and nobody waits before it."""
        return model not in self._waiting and self._capacity.free(model)

    async def wait(self, model: ModelId, *, reject_if_busy: bool) -> None:
        """Wait for a slot, in order of arrival."""
        waiting = self._waiting.setdefault(model, deque())
        settings = self._settings
        if reject_if_busy or len(waiting) >= settings.waiting_max:
            # Those who wait are served before whoever comes again.
            seconds = self._retry_after(model, ahead=len(waiting))
            self._drop_if_empty(model)
            raise OutOfCapacity(retry_after_seconds=seconds)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        timer = self._wheel.after(settings.wait_seconds_max, lambda: self._give_up(model, turn))
        # A slot may have come free while those before were leaving, with nobody left to tell.
        self._let_in(model)
        try:
            await turn
            self._coming.discard(model)
        except BaseException:
            # Left, or gave up. If the turn had come just before, it goes to the next in line.
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._coming.discard(model)
                self._let_in(model)
            raise
        finally:
            timer.cancel()
            if turn in waiting:
                waiting.remove(turn)
            self._drop_if_empty(model)

    def let_next(self, model: ModelId) -> None:
        """A slot may be free: a request ended, or one that was let in has come."""
        if model in self._waiting:
            self._let_in(model)

    def note_end(self, model: ModelId) -> None:
        """A request ended. One addition: every request comes by here."""
        drain = self._drains.get(model)
        if drain is None:
            drain = self._drains[model] = DrainRate(self._settings.drain_memory_seconds)
        drain.note()

    def measure(self, now: float) -> None:
        """Take into the averages what has ended since the last time."""
        for model, drain in self._drains.items():
            # What ends while slots are free tells how much was asked, not how fast they drain.
            is_busy = model in self._waiting or not self._capacity.free(model)
            drain.measure(now, is_busy=is_busy)

    def capacity_changed(self) -> None:
        """Replicas came or went: let in as many as fit now."""
        for model in list(self._waiting):
            self._let_in(model)

    def waiting(self) -> dict[ModelId, int]:
        return {model: len(turns) for model, turns in self._waiting.items()}

    def _let_in(self, model: ModelId) -> None:
        if model in self._coming:
            # One at a time, or two would be let in for one slot: the one that comes calls let_next.
            return
        waiting = self._waiting.get(model)
        while waiting and self._capacity.free(model):
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._coming.add(model)
                return

    def _drop_if_empty(self, model: ModelId) -> None:
        if not self._waiting.get(model) and model not in self._coming:
            self._waiting.pop(model, None)

    def _give_up(self, model: ModelId, turn: asyncio.Future[None]) -> None:
        if turn.done():
            return
        seconds = self._retry_after(model, ahead=len(self._waiting.get(model, ())))
        turn.set_exception(OutOfCapacity(retry_after_seconds=seconds))

    def _retry_after(self, model: ModelId, *, ahead: int) -> int:
        drain = self._drains.get(model)
        seconds = None if drain is None else drain.seconds_for(ahead + 1)
        if seconds is None:
            return self._settings.retry_after_seconds
        return max(1, math.ceil(min(seconds, self._settings.retry_after_seconds_max)))
