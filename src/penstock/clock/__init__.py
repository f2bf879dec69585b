"""Clock, timers and ids: other code takes time from here, so that a simulation can control it."""

from penstock.clock.ids import first_id_at, new_id, new_span_id, timestamp_of
from penstock.clock.system import Clock, SystemClock
from penstock.clock.timer_wheel import Timer, TimerWheel

__all__ = [
    "Clock",
    "SystemClock",
    "Timer",
    "TimerWheel",
    "first_id_at",
    "new_id",
    "new_span_id",
    "timestamp_of",
]
