"""One coarse timer for all requests of a worker.

`asyncio.timeout` costs 4.4 µs a request and `call_later` an allocation and a heap push for each
chunk that moves a deadline. Here a deadline is an attribute: moving it is one assignment, and the
wheel looks at each armed timer only when its old deadline comes. Precision is one tick, which is
enough for timeouts of seconds and costs nothing per chunk.
"""

import asyncio
from collections.abc import Callable

from penstock.clock.system import Clock


class Timer:
    """A deadline that may be moved freely; `fire` is called once, at the first tick after it."""

    __slots__ = ("deadline", "fire", "is_armed")

    def __init__(self, fire: Callable[[], None], deadline: float) -> None:
        self.fire = fire
        self.deadline = deadline
        self.is_armed = True

    def cancel(self) -> None:
        self.is_armed = False


class TimerWheel:
    """Slots of one tick each; a timer whose deadline has moved is put back when its slot comes."""

    def __init__(self, clock: Clock, *, tick_seconds: float = 0.1, slots: int = 512) -> None:
        self._clock = clock
        self._tick = tick_seconds
        self._slots: list[list[Timer]] = [[] for _ in range(slots)]
        self._position = int(clock.monotonic() / tick_seconds)
        self._handle: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def after(self, seconds: float, fire: Callable[[], None]) -> Timer:
        """Arm a timer. Cancel it, or move `deadline` (monotonic seconds), whenever you like."""
        timer = Timer(fire, self._clock.monotonic() + seconds)
        self._place(timer)
        return timer

    def start(self) -> None:
        """Begin to turn, on the running loop."""
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(self._tick, self._turn)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def advance(self) -> None:
        """Fire what is due. Called by the loop; a simulation calls it after moving its clock."""
        now = self._clock.monotonic()
        target = int(now / self._tick)
        # After a long pause every slot is visited at most once.
        steps = min(target - self._position, len(self._slots))
        for step in range(steps):
            index = (target - steps + 1 + step) % len(self._slots)
            due, self._slots[index] = self._slots[index], []
            for timer in due:
                if not timer.is_armed:
                    continue
                if timer.deadline > now:
                    self._place(timer)
                    continue
                timer.is_armed = False
                timer.fire()
        self._position = max(target, self._position)

    def _place(self, timer: Timer) -> None:
        # A deadline further away than the wheel is long is looked at once per turn and put back.
        ticks = int(timer.deadline / self._tick) + 1
        ticks = min(max(ticks, self._position + 1), self._position + len(self._slots) - 1)
        self._slots[ticks % len(self._slots)].append(timer)

    def _turn(self) -> None:
        assert self._loop is not None
        self._handle = self._loop.call_later(self._tick, self._turn)
        self.advance()
