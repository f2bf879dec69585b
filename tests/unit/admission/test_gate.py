"""The gate: in order of arrival, bounded, and nobody waits while a slot is free."""

import asyncio
import contextlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.admission import AdmissionSettings, Gate
from penstock.clock import TimerWheel
from penstock.errors import NoReplica, OutOfCapacity
from penstock.records.model import ModelId
from penstock.testing.manual_clock import ManualClock

M, OTHER = ModelId("m"), ModelId("other")


class World:
    """Slots, and visitors that go through the gate as serving's path does."""

    def __init__(self, slots: int, limits: AdmissionSettings | None = None) -> None:
        self.slots = slots
        # What is said while the model is at zero and wakes.
        self.refusal: NoReplica | None = None
        self.clock = ManualClock()
        self.wheel = TimerWheel(self.clock)
        self.gate = Gate(self, limits or AdmissionSettings(), self.wheel)
        self.running: list[int] = []
        self.entered: list[int] = []
        self.refused: list[int] = []
        self.has_shrunk = False
        self.overfull: list[int] = []
        self.tasks: dict[int, asyncio.Task[None]] = {}

    def free(self, model: ModelId) -> bool:
        return model != M or len(self.running) < self.slots

    def waking(self, model: ModelId) -> NoReplica | None:
        del model
        return self.refusal

    def arrive(self, *, reject_if_busy: bool = False) -> int:
        number = len(self.tasks)
        visit = self._visit(number, reject_if_busy=reject_if_busy)
        self.tasks[number] = asyncio.get_running_loop().create_task(visit)
        return number

    async def _visit(self, number: int, *, reject_if_busy: bool) -> None:
        if not self.gate.has_room(M):
            try:
                await self.gate.wait(M, reject_if_busy=reject_if_busy)
            except (NoReplica, OutOfCapacity):
                self.refused.append(number)
                return
        self.running.append(number)
        self.entered.append(number)
        if len(self.running) > self.slots and not self.has_shrunk:
            self.overfull.append(number)
        self.gate.let_next(M)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.running.remove(number)
            self.gate.note_end(M)
            self.gate.let_next(M)

    def end(self, number: int) -> None:
        """Finished if it runs, gone if it waits: to its task both are a cancel."""
        self.tasks[number].cancel()

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.wheel.advance()

    def waiting(self) -> int:
        return self.gate.waiting().get(M, 0)

    async def settle(self) -> None:
        for _ in range(2 * len(self.tasks) + 8):
            await asyncio.sleep(0)

    async def close(self) -> None:
        for task in self.tasks.values():
            task.cancel()
        for task in self.tasks.values():
            with contextlib.suppress(asyncio.CancelledError):
                await task
        assert self.gate.waiting() == {}
        assert self.gate.has_room(M)
        assert self.overfull == [], "no slot was given twice"
        armed = [timer for slot in self.wheel._slots for timer in slot if timer.is_armed]
        assert armed == []


async def full_world(slots: int, waiting: int, limits: AdmissionSettings | None = None) -> World:
    world = World(slots, limits)
    for _ in range(slots + waiting):
        world.arrive()
    await world.settle()
    assert (len(world.running), world.waiting()) == (slots, waiting)
    return world


async def test_request_goes_on_at_once_while_a_slot_is_free() -> None:
    world = await full_world(3, 0)
    assert world.entered == [0, 1, 2]
    assert not world.gate.has_room(M)
    assert world.gate.has_room(OTHER)
    await world.close()


async def test_waiting_ones_come_in_in_order_of_arrival() -> None:
    world = await full_world(1, 5)
    for number in range(6):
        assert world.running == [number]
        world.end(number)
        await world.settle()
    assert world.entered == [0, 1, 2, 3, 4, 5]
    await world.close()


async def test_newcomer_does_not_overtake_one_that_waits() -> None:
    world = await full_world(1, 1)
    world.end(0)
    # The slot falls free and a newcomer arrives in the same turn of the loop.
    world.arrive()
    await world.settle()
    assert world.running == [1]
    assert world.waiting() == 1
    await world.close()


async def test_slots_that_fall_free_together_let_in_as_many_and_no_more() -> None:
    world = await full_world(3, 5)
    for number in range(3):
        world.end(number)
    await world.settle()
    assert world.running == [3, 4, 5]
    await world.close()


async def test_busy_model_refuses_those_that_would_not_wait() -> None:
    world = await full_world(1, 0)
    world.arrive(reject_if_busy=True)
    await world.settle()
    assert world.refused == [1]
    assert world.waiting() == 0
    await world.close()


async def test_free_model_takes_those_that_would_not_wait() -> None:
    world = World(1)
    world.arrive(reject_if_busy=True)
    await world.settle()
    assert world.running == [0]
    await world.close()


async def test_queue_is_bounded() -> None:
    world = await full_world(1, 2, AdmissionSettings(waiting_max=2, retry_after_seconds=7))
    world.arrive()
    await world.settle()
    assert world.refused == [3]
    with pytest.raises(OutOfCapacity) as refused:
        await world.gate.wait(M, reject_if_busy=False)
    assert refused.value.retry_after_seconds == 7
    assert refused.value.retryable
    world.end(1)
    await world.settle()
    world.arrive()
    await world.settle()
    assert world.waiting() == 2
    await world.close()


async def test_a_model_that_wakes_has_bounds_and_a_refusal_of_its_own() -> None:
    world = World(0, AdmissionSettings(waiting_max=1, wake_waiting_max=2, wake_seconds_max=300.0))
    world.refusal = NoReplica("it starts", retry_after_seconds=42)
    for _ in range(3):
        world.arrive()
    await world.settle()
    assert (world.waiting(), world.refused) == (2, [2])
    with pytest.raises(NoReplica) as beyond:
        await world.gate.wait(M, reject_if_busy=True)
    assert beyond.value.retry_after_seconds == 42
    assert (world.gate.take_unmet(), world.gate.take_unmet()) == ({M}, set())
    world.pass_time(299)
    await world.settle()
    assert world.waiting() == 2
    world.refusal, world.slots = None, 1
    world.gate.capacity_changed()
    await world.settle()
    assert world.running == [0]
    await world.close()


async def test_who_waits_too_long_for_a_model_that_wakes_is_told_when_to_ask_again() -> None:
    world = World(0, AdmissionSettings(wake_seconds_max=300.0))
    world.refusal = NoReplica("it starts", retry_after_seconds=42)
    wait = asyncio.ensure_future(world.gate.wait(M, reject_if_busy=False))
    await asyncio.sleep(0)
    world.pass_time(301)
    with pytest.raises(NoReplica) as late:
        await wait
    assert late.value.retry_after_seconds == 42
    assert world.waiting() == 0


async def test_those_who_are_refused_are_told_how_long_the_line_takes() -> None:
    world = await full_world(2, 10, AdmissionSettings(waiting_max=10, retry_after_seconds_max=60))
    world.gate.measure(world.clock.monotonic())
    # Two end in a second, and ten wait: who comes again is the eleventh.
    for first in (0, 2):
        world.end(first)
        world.end(first + 1)
        world.pass_time(1)
        await world.settle()
        world.gate.measure(world.clock.monotonic())
    assert world.waiting() == 6
    for _ in range(4):
        world.arrive()
    await world.settle()
    with pytest.raises(OutOfCapacity) as refused:
        await world.gate.wait(M, reject_if_busy=False)
    assert refused.value.retry_after_seconds == 6
    with pytest.raises(OutOfCapacity) as busy:
        await world.gate.wait(M, reject_if_busy=True)
    assert busy.value.retry_after_seconds == 6
    await world.close()


async def test_nobody_is_told_to_wait_longer_than_the_bound() -> None:
    limits = AdmissionSettings(waiting_max=5, retry_after_seconds=7, retry_after_seconds_max=9)
    world = await full_world(1, 5, limits)
    for number in range(2):
        world.end(number)
        world.pass_time(20)
        await world.settle()
        world.gate.measure(world.clock.monotonic())
    with pytest.raises(OutOfCapacity) as refused:
        await world.gate.wait(M, reject_if_busy=True)
    assert refused.value.retry_after_seconds == 9
    await world.close()


async def test_no_queue_at_all_may_be_set() -> None:
    world = await full_world(1, 0, AdmissionSettings(waiting_max=0))
    world.arrive()
    await world.settle()
    assert world.refused == [1]
    await world.close()


async def test_wait_ends_at_its_timeout_for_each_in_turn() -> None:
    world = await full_world(1, 1, AdmissionSettings(wait_seconds_max=60))
    world.pass_time(30)
    world.arrive()
    await world.settle()
    world.pass_time(29)
    await world.settle()
    assert world.refused == []
    world.pass_time(1.2)
    await world.settle()
    assert world.refused == [1]
    assert world.waiting() == 1
    world.pass_time(30)
    await world.settle()
    assert world.refused == [1, 2]
    assert world.gate.waiting() == {}
    await world.close()


async def test_one_that_left_is_passed_over() -> None:
    world = await full_world(1, 3)
    world.end(1)
    world.end(2)
    await world.settle()
    assert world.waiting() == 1
    world.end(0)
    await world.settle()
    assert world.running == [3]
    await world.close()


async def test_turn_of_one_that_leaves_as_it_comes_goes_to_the_next() -> None:
    world = await full_world(1, 2)
    # In one turn of the loop: the slot falls free, 1 is let in, and 1's client leaves.
    world.end(0)
    await asyncio.sleep(0)
    world.end(1)
    await world.settle()
    assert world.running == [2]
    await world.close()


async def test_timeout_that_comes_with_the_turn_loses_no_slot() -> None:
    world = await full_world(1, 2, AdmissionSettings(wait_seconds_max=60))
    world.end(0)
    world.pass_time(61)
    await world.settle()
    world.arrive()
    await world.settle()
    assert len(world.running) == 1
    await world.close()


async def test_one_that_comes_as_the_last_one_leaves_is_not_forgotten() -> None:
    world = await full_world(1, 1)
    world.arrive()
    world.end(1)
    world.slots = 2
    # 1 has left, but 2 still finds it there; the slot is free, and nobody else will ever tell.
    world.gate.capacity_changed()
    await world.settle()
    assert world.running == [0, 2]
    await world.close()


async def test_new_capacity_lets_in_as_many_as_fit() -> None:
    world = await full_world(1, 5)
    world.slots = 4
    world.gate.capacity_changed()
    await world.settle()
    assert world.running == [0, 1, 2, 3]
    await world.close()


async def test_capacity_told_twice_in_one_turn_lets_in_no_more_than_fit() -> None:
    world = await full_world(1, 5)
    world.slots = 2
    for _ in range(4):
        world.gate.capacity_changed()
        world.gate.let_next(M)
    await world.settle()
    assert world.running == [0, 1]
    await world.close()


async def test_one_that_is_refused_does_not_open_the_gate_to_others() -> None:
    world = await full_world(1, 1)
    world.end(0)
    await asyncio.sleep(0)
    # 1 is let in and has not come yet; 2 will not wait, 3 would.
    world.arrive(reject_if_busy=True)
    world.arrive()
    await world.settle()
    assert world.running == [1]
    assert world.refused == [2]
    assert world.waiting() == 1
    await world.close()


async def test_models_do_not_wait_for_each_other() -> None:
    world = await full_world(1, 3)
    assert world.gate.has_room(OTHER)
    assert world.gate.waiting() == {M: 3}
    world.gate.let_next(OTHER)
    await world.close()


ops = st.lists(
    st.tuples(
        st.sampled_from(["arrive", "arrive", "arrive", "end", "end", "settle", "slots", "time"]),
        st.integers(0, 30),
    ),
    max_size=60,
)


async def play(slots: int, steps: list[tuple[str, int]]) -> None:
    world = World(slots, AdmissionSettings(waiting_max=6, wait_seconds_max=60))
    for op, value in [*steps, ("settle", 0)]:
        match op:
            case "arrive":
                world.arrive(reject_if_busy=value == 0)
            case "end" if world.tasks:
                world.end(value % len(world.tasks))
            case "slots":
                world.has_shrunk |= value % 5 + 1 < world.slots
                world.slots = value % 5 + 1
                world.gate.capacity_changed()
            case "time":
                world.pass_time(value)
            case "settle":
                await world.settle()
                assert not world.waiting() or len(world.running) >= world.slots
                assert world.waiting() <= 6
                world.has_shrunk = False
    assert world.entered == sorted(world.entered), "in order of arrival"
    await world.close()


@settings(max_examples=120, deadline=None)
@given(st.integers(1, 4), ops)
@example(2, [("arrive", 1)] * 6 + [("settle", 0), ("end", 0), ("end", 1), ("settle", 0)])
def test_nobody_waits_while_a_slot_is_free_and_no_slot_is_given_twice(
    slots: int, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(play(slots, steps))
