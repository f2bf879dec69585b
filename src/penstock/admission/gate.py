"""The wait queue of each model. *Busy* means every eligible replica has its live slots in flight.
A model at zero replicas that wakes for requests has a queue too, with bounds of its own.

A request that ends admits the longest-waiting one. Nothing here is durable: the client of a waiting
request keeps its connection open.
"""

import asyncio
import math
from collections import deque
from typing import Protocol

from penstock.admission.drain_rate import DrainRate
from penstock.admission.settings import AdmissionSettings
from penstock.clock import TimerWheel
from penstock.errors import NoReplica, OutOfCapacity
from penstock.records.model import ModelId


class Capacity(Protocol):
    """The port that routing implements."""

    def free(self, model: ModelId) -> bool: ...

    def waking(self, model: ModelId) -> NoReplica | None: ...


class Gate:
    """Call `has_room` or `wait` before picking a replica, `let_next` when a slot may be free.

    Call `note_end` for each request that ends, and `measure` now and then beside the path: the rate
    of ends gives the retry time of refused requests.
    """

    def __init__(self, capacity: Capacity, settings: AdmissionSettings, wheel: TimerWheel) -> None:
        self._capacity = capacity
        self._settings = settings
        self._wheel = wheel
        self._waiting: dict[ModelId, deque[asyncio.Future[None]]] = {}
        # Models with a request that was let in and has not taken its slot yet.
        self._coming: set[ModelId] = set()
        self._drains: dict[ModelId, DrainRate] = {}
        # Models at zero for which a request was refused since `take_unmet`.
        self._unmet: set[ModelId] = set()

    def has_room(self, model: ModelId) -> bool:
        """Return whether a request may go on at once: a slot is free and no other request waits."""
        return model not in self._waiting and self._capacity.free(model)

    async def wait(self, model: ModelId, *, reject_if_busy: bool) -> None:
        """Wait for a slot, in order of arrival."""
        waiting = self._waiting.setdefault(model, deque())
        settings = self._settings
        is_waking = self.is_waking(model)
        waiting_max = settings.wake_waiting_max if is_waking else settings.waiting_max
        seconds_max = settings.wake_seconds_max if is_waking else settings.wait_seconds_max
        if reject_if_busy or len(waiting) >= waiting_max:
            refusal = self._refusal(model)
            self._drop_if_empty(model)
            if is_waking:
                self._unmet.add(model)
            raise refusal
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        timer = self._wheel.after(seconds_max, lambda: self._give_up(model, turn))
        # A slot may have become free while earlier waiters were leaving, with none to notify.
        self._let_in(model)
        try:
            await turn
            self._coming.discard(model)
        except BaseException:
            # The client left, or the wait timed out. If its turn had just come, the next gets it.
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
        """Admit the next when a slot may be free: one has ended, or has taken its slot."""
        if model in self._waiting:
            self._let_in(model)

    def note_end(self, model: ModelId) -> None:
        """Count a request that ended: only one addition, because every request does it."""
        drain = self._drains.get(model)
        if drain is None:
            drain = self._drains[model] = DrainRate(self._settings.drain_memory_seconds)
        drain.note()

    def measure(self, now: float) -> None:
        """Add the requests that have ended since the last call to the averages."""
        for model, drain in self._drains.items():
            # While slots are free the rate of ends shows the demand, not the capacity.
            is_busy = model in self._waiting or not self._capacity.free(model)
            drain.measure(now, is_busy=is_busy)

    def capacity_changed(self) -> None:
        """Admit waiting requests after replicas came or went."""
        for model in list(self._waiting):
            self._let_in(model)

    def waiting(self) -> dict[ModelId, int]:
        return {model: len(turns) for model, turns in self._waiting.items()}

    def take_unmet(self) -> set[ModelId]:
        """Return the models at zero whose requests would not wait, since the last call."""
        unmet, self._unmet = self._unmet, set()
        return unmet

    def is_waking(self, model: ModelId) -> bool:
        """Return whether a model is at zero and wakes for requests."""
        return self._capacity.waking(model) is not None

    def _let_in(self, model: ModelId) -> None:
        if model in self._coming:
            # One at a time, or two would get one slot: the request let in calls let_next itself.
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
        turn.set_exception(self._refusal(model))

    def _refusal(self, model: ModelId) -> NoReplica | OutOfCapacity:
        """Return what is said to a request that cannot wait, or not longer."""
        waking = self._capacity.waking(model)
        if waking is not None:
            return waking
        # Requests that wait are served before a client that retries.
        seconds = self._retry_after(model, ahead=len(self._waiting.get(model, ())))
        return OutOfCapacity(retry_after_seconds=seconds)

    def _retry_after(self, model: ModelId, *, ahead: int) -> int:
        drain = self._drains.get(model)
        seconds = None if drain is None else drain.seconds_for(ahead + 1)
        if seconds is None:
            return self._settings.retry_after_seconds
        return max(1, math.ceil(min(seconds, self._settings.retry_after_seconds_max)))
