"""Who runs, who waits, who is refused."""

import asyncio

import pytest

from penstock.testing.scripted_engine.slots import QueueFullError, Slots


async def test_waiting_requests_run_by_priority_then_arrival() -> None:
    slots = Slots(1, None)
    await slots.acquire(0)
    order: list[str] = []

    async def take(name: str, priority: int) -> None:
        await slots.acquire(priority)
        order.append(name)
        slots.release()

    async with asyncio.TaskGroup() as group:
        for name, priority in (("late", 5), ("first", 0), ("second", 0)):
            group.create_task(take(name, priority))
        await asyncio.sleep(0)
        assert (slots.running, slots.waiting) == (1, 3)
        slots.release()
    assert order == ["first", "second", "late"]
    assert (slots.running, slots.waiting) == (0, 0)


async def test_a_waiting_request_that_is_cancelled_leaves_the_queue() -> None:
    slots = Slots(1, 1)
    await slots.acquire(0)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(slots.acquire(0))
        await asyncio.sleep(0)
        with pytest.raises(QueueFullError):
            slots.check_room()
        waiting.cancel()
    assert slots.waiting == 0
    slots.check_room()
    slots.release()
    assert slots.running == 0


async def test_a_slot_given_to_a_request_that_is_just_cancelled_is_not_lost() -> None:
    slots = Slots(1, None)
    await slots.acquire(0)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(slots.acquire(0))
        await asyncio.sleep(0)
        slots.release()
        waiting.cancel()
    assert (slots.running, slots.waiting) == (0, 0)
