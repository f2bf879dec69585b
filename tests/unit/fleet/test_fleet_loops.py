"""Loops that end when they are told to."""

import asyncio

import pytest

from penstock.fleet.loops import heed_cancel, wait_for_event


async def test_a_cancel_that_was_dropped_below_is_heeded() -> None:
    async def deaf() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            # As a library does that takes a result for more important.
            heed_cancel()

    async with asyncio.TaskGroup() as group:
        task = group.create_task(deaf())
        await asyncio.sleep(0)
        task.cancel()
    assert task.cancelled()


async def test_without_a_cancel_nothing_is_raised() -> None:
    heed_cancel()
    await wait_for_event(asyncio.Event(), 0.001)
    heed_cancel()


async def test_a_cancel_that_meets_the_event_is_not_lost() -> None:
    event = asyncio.Event()
    task = asyncio.get_running_loop().create_task(wait_for_event(event, 60))
    await asyncio.sleep(0)
    event.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
