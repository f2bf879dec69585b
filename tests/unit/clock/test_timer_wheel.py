"""The wheel's promise: a timer fires once, never early, at the first tick after its deadline."""

import asyncio
import gc
import itertools
import logging
import weakref
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.clock import SystemClock, Timer, TimerWheel
from penstock.testing.manual_clock import ManualClock

TICK = 0.1
SLOTS = 16


class Watch:
    """A wheel on a manual clock, and the moments at which its timers fired."""

    def __init__(self, *, slots: int = SLOTS) -> None:
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock, tick_seconds=TICK, slots=slots)
        self.fired: dict[str, list[float]] = {}

    def arm(self, name: str, seconds: float) -> Timer:
        self.fired[name] = []
        return self.wheel.after(seconds, self._note(name))

    def run(self, seconds: float, *, step: float = TICK) -> None:
        for _ in range(round(seconds / step)):
            self.clock.advance(step)
            self.wheel.advance()

    def _note(self, name: str) -> Callable[[], None]:
        return lambda: self.fired[name].append(self.clock.monotonic())


def assert_fired_on_time(watch: Watch, name: str, deadline: float, *, step: float = TICK) -> None:
    assert len(watch.fired[name]) == 1, name
    late = watch.fired[name][0] - deadline
    # One tick of rounding, and the time between two looks at the clock.
    assert -1e-9 <= late <= TICK + step + 1e-9, (name, late)


def test_timer_fires_once_at_the_first_tick_after_its_deadline() -> None:
    watch = Watch()
    deadline = watch.arm("a", 0.55).deadline
    watch.run(10)
    assert_fired_on_time(watch, "a", deadline)


def test_timer_does_not_fire_before_its_deadline_when_looked_at_often() -> None:
    watch = Watch()
    deadline = watch.arm("a", 0.55).deadline
    watch.run(2, step=0.001)
    assert_fired_on_time(watch, "a", deadline, step=0.001)


def test_cancelled_timer_never_fires() -> None:
    watch = Watch()
    watch.arm("a", 0.5).cancel()
    late = watch.arm("b", 0.5)
    watch.run(0.3)
    late.cancel()
    watch.run(5)
    assert watch.fired == {"a": [], "b": []}


def test_fired_timer_is_no_longer_armed_and_does_not_come_back_when_moved() -> None:
    watch = Watch()
    timer = watch.arm("a", 0.2)
    watch.run(1)
    assert not timer.is_armed
    timer.deadline = watch.clock.monotonic() + 0.2
    watch.run(5)
    assert len(watch.fired["a"]) == 1


def test_deadline_moved_later_is_kept() -> None:
    watch = Watch()
    timer = watch.arm("a", 0.5)
    for _ in range(40):
        watch.run(0.3)
        timer.deadline = watch.clock.monotonic() + 0.5
    assert watch.fired["a"] == []
    watch.run(2)
    assert_fired_on_time(watch, "a", timer.deadline)


def test_deadline_moved_sooner_is_kept() -> None:
    # A stream has 600 s to its first byte and then 60 s between two: it must not wait for the 600.
    watch = Watch()
    timer = watch.arm("a", 600.0)
    watch.run(3)
    timer.deadline = watch.clock.monotonic() + 0.5
    watch.run(5)
    assert_fired_on_time(watch, "a", timer.deadline)


def test_deadline_moved_sooner_and_later_again_fires_once() -> None:
    watch = Watch()
    timer = watch.arm("a", 1e9)
    for _ in range(50):
        timer.deadline = watch.clock.monotonic() + 0.4
        watch.run(0.2)
        timer.deadline = watch.clock.monotonic() + 1e9
        watch.run(0.3)
    assert watch.fired["a"] == []
    timer.deadline = watch.clock.monotonic() + 0.4
    watch.run(5)
    assert_fired_on_time(watch, "a", timer.deadline)


def test_deadline_moved_into_the_past_fires_at_the_next_tick() -> None:
    watch = Watch()
    timer = watch.arm("a", 5.0)
    timer.deadline = watch.clock.monotonic() - 1
    watch.run(TICK)
    assert len(watch.fired["a"]) == 1


def test_deadline_far_beyond_the_wheels_length_is_kept() -> None:
    watch = Watch()
    deadline = watch.arm("a", SLOTS * TICK * 7.5).deadline
    watch.run(SLOTS * TICK * 9)
    assert_fired_on_time(watch, "a", deadline)


def test_everything_due_fires_once_after_a_pause_longer_than_the_wheel() -> None:
    watch = Watch()
    for index in range(100):
        watch.arm(str(index), index * 0.05)
    later = watch.arm("later", 1001.0)
    watch.clock.advance(1000.0)
    watch.wheel.advance()
    assert all(len(watch.fired[str(index)]) == 1 for index in range(100))
    assert watch.fired["later"] == []
    watch.run(3)
    assert_fired_on_time(watch, "later", later.deadline)


def test_timer_armed_while_a_long_pause_is_caught_up_is_on_time() -> None:
    watch = Watch()
    rearmed: list[Timer] = []
    for delay in range(1, SLOTS):
        watch.wheel.after(
            delay * TICK, lambda: rearmed.append(watch.arm(str(len(rearmed)), 2 * TICK))
        )
    watch.clock.advance(1000.0)
    watch.wheel.advance()
    assert len(rearmed) == SLOTS - 1
    watch.run(3)
    for index, timer in enumerate(rearmed):
        assert_fired_on_time(watch, str(index), timer.deadline)


def test_timer_may_arm_the_next_one() -> None:
    watch = Watch()
    beats: list[float] = []

    def beat() -> None:
        beats.append(watch.clock.monotonic())
        watch.wheel.after(0.25, beat)

    watch.wheel.after(0.25, beat)
    watch.run(10)
    gaps = [b - a for a, b in itertools.pairwise(beats)]
    assert len(beats) >= 28
    assert all(0.25 - 1e-9 <= gap <= 0.25 + 2 * TICK + 1e-9 for gap in gaps)


def test_timer_that_cancels_another_one_due_at_the_same_tick_is_obeyed() -> None:
    watch = Watch()
    doomed: list[Timer] = []

    def stop_the_other() -> None:
        doomed.pop().cancel()

    watch.wheel.after(0.5, stop_the_other)
    doomed.append(watch.arm("a", 0.5))
    watch.run(2)
    assert watch.fired["a"] == []


def test_timer_that_raises_does_not_take_the_others_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watch = Watch()

    def crash() -> None:
        raise RuntimeError("a bug")

    watch.arm("before", 0.5)
    watch.wheel.after(0.5, crash)
    watch.arm("after", 0.5)
    watch.arm("next", 0.7)
    with caplog.at_level(logging.ERROR):
        watch.run(2)
    assert [len(times) for times in watch.fired.values()] == [1, 1, 1]
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_cancelled_timer_lets_go_of_what_it_would_have_called() -> None:
    # Its slot may be a minute away: a finished answer must not be kept in memory till then.
    class Answer:
        def on_deadline(self) -> None: ...

    watch = Watch()
    answer = Answer()
    gone = weakref.ref(answer)
    watch.wheel.after(1.0, answer.on_deadline).cancel()
    del answer
    gc.collect()
    assert gone() is None


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["arm", "move", "cancel", "pass", "pass"]),
            st.integers(0, 7),
            st.floats(0, 4) | st.floats(0, 12),
        ),
        max_size=60,
    )
)
def test_any_schedule_is_kept(steps: list[tuple[str, int, float]]) -> None:
    watch = Watch()
    timers: list[tuple[str, Timer]] = []
    cancelled: set[str] = set()
    for number, (action, which, amount) in enumerate(steps):
        if action == "arm":
            timers.append((str(number), watch.arm(str(number), amount)))
        elif action == "pass":
            watch.run(min(amount, 3.0), step=0.05)
        elif timers:
            name, timer = timers[which % len(timers)]
            if not timer.is_armed:
                continue
            if action == "move":
                timer.deadline = watch.clock.monotonic() + amount
            else:
                timer.cancel()
                cancelled.add(name)
    watch.run(13, step=0.05)
    for name, timer in timers:
        if name in cancelled:
            assert watch.fired[name] == []
        else:
            assert_fired_on_time(watch, name, timer.deadline, step=0.05)


@settings(max_examples=50, deadline=None)
@given(
    delays=st.lists(st.floats(0, 30), max_size=30),
    pauses=st.lists(st.floats(0.01, 20), min_size=1, max_size=20),
)
def test_no_timer_is_early_lost_or_doubled_whatever_the_pauses(
    delays: list[float], pauses: list[float]
) -> None:
    watch = Watch()
    deadlines = [watch.arm(str(n), delay).deadline for n, delay in enumerate(delays)]
    previous = watch.clock.monotonic()
    for pause in [*pauses, 40.0]:
        watch.clock.advance(pause)
        watch.wheel.advance()
        now = watch.clock.monotonic()
        for name, deadline in enumerate(deadlines):
            times = watch.fired[str(name)]
            assert len(times) <= 1
            assert not times or times[0] >= deadline
            if deadline < previous - TICK:
                assert times, "it was due a whole look ago"
        previous = now


async def test_wheel_turns_on_the_loop_until_it_is_stopped() -> None:
    wheel = TimerWheel(SystemClock(), tick_seconds=0.002)
    fired = asyncio.Event()
    wheel.start()
    wheel.after(0.004, fired.set)
    await asyncio.wait_for(fired.wait(), 5)
    wheel.stop()
    late: list[int] = []
    wheel.after(0.002, lambda: late.append(1))
    await asyncio.sleep(0.02)
    assert late == []


async def test_wheel_may_be_stopped_twice_and_before_it_started() -> None:
    wheel = TimerWheel(SystemClock())
    wheel.stop()
    wheel.start()
    wheel.stop()
    wheel.stop()
    assert wheel.after(1, lambda: None).is_armed
