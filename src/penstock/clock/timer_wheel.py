"""One coarse timer for all requests of a worker.

`asyncio.timeout` costs 4.4 µs a request and `call_later` an allocation and a heap push for each
chunk that moves a deadline. Here a deadline is a number: moving it is one comparison, and the wheel
checks each armed timer when its old deadline comes, or every three seconds. Precision is one tick,
which is enough for timeouts of seconds and costs nothing per chunk. The wheel is short, so that it
soon drops the many timers of requests that ended in time.
"""

import asyncio
import logging
from collections.abc import Callable

from penstock.clock.system import Clock

logger = logging.getLogger(__name__)


class Timer:
    """A deadline that may be moved freely; `fire` is called once, at the first tick after it."""

    # The slot that holds this timer, and the earliest deadline for which that slot is soon enough.
    slot: int
    looked_at_from: float

    def __init__(self, wheel: "TimerWheel", fire: Callable[[], None], deadline: float) -> None:
        self._wheel = wheel
        self._deadline = deadline
        self.fire = fire
        self.is_armed = True

    @property
    def deadline(self) -> float:
        return self._deadline

    @deadline.setter
    def deadline(self, at: float) -> None:
        self._deadline = at
        if at < self.looked_at_from and self.is_armed:
            self._wheel.place(self)

    def cancel(self) -> None:
        self.is_armed = False
        # The wheel may hold this timer for seconds; it must not keep a finished answer in memory.
        self.fire = _nothing


class TimerWheel:
    """Slots of one tick each; a timer whose deadline moved is put back when its slot comes."""

    def __init__(self, clock: Clock, *, tick_seconds: float = 0.1, slots: int = 32) -> None:
        self._monotonic = clock.monotonic
        self._tick = tick_seconds
        self._slots: list[list[Timer]] = [[] for _ in range(slots)]
        self._count = slots
        self._position = int(clock.monotonic() / tick_seconds)
        self._handle: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def after(self, seconds: float, fire: Callable[[], None]) -> Timer:
        """Arm a timer. The caller may cancel it or move `deadline` (monotonic seconds) later."""
        timer = Timer(self, fire, self._monotonic() + seconds)
        self.place(timer)
        return timer

    def start(self) -> None:
        """Start the ticks, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(self._tick, self._turn)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def advance(self) -> None:
        """Fire due timers. The loop calls this; a simulation calls it after moving its clock."""
        now = self._monotonic()
        target = int(now / self._tick)
        # After a long pause every slot is visited at most once.
        steps = min(target - self._position, self._count)
        # Set before timers fire: those armed or re-placed meanwhile are placed relative to now.
        self._position = max(target, self._position)
        for tick in range(target - steps + 1, target + 1):
            slot = tick % self._count
            due, self._slots[slot] = self._slots[slot], []
            for timer in due:
                # A timer whose deadline was moved earlier is in another slot by now.
                if timer.is_armed and timer.slot == slot:
                    self._look_at(timer, now)

    def place(self, timer: Timer) -> None:
        """Put a timer into the slot for its deadline. Only the wheel and its timers call this."""
        # A deadline beyond the wheel's length is checked once per turn of the wheel and re-placed.
        before, first = int(timer.deadline / self._tick), self._position
        if before < first:
            before = first
        elif before > first + self._count - 2:
            before = first + self._count - 2
        timer.looked_at_from = before * self._tick
        timer.slot = slot = (before + 1) % self._count
        self._slots[slot].append(timer)

    def _look_at(self, timer: Timer, now: float) -> None:
        if timer.deadline > now:
            self.place(timer)
            return
        timer.is_armed = False
        try:
            timer.fire()
        except Exception:
            # Nothing above catches it; one caller's bug must not stop the timeouts of the others.
            logger.exception("timer crashed", extra={"action": "timer_crashed"})

    def _turn(self) -> None:
        assert self._loop is not None
        self._handle = self._loop.call_later(self._tick, self._turn)
        self.advance()


def _nothing() -> None:
    """Do nothing: the `fire` of a cancelled timer."""
