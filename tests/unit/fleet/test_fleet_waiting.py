"""Loops that wait for an event end when they are told to."""

import asyncio

import pytest

from penstock.fleet.waiting import wait_for_event


async def test_the_wait_ends_by_time_alone() -> None:
    await wait_for_event(asyncio.Event(), 0.001)


async def test_a_cancel_that_meets_the_event_is_not_lost() -> None:
    event = asyncio.Event()
    task = asyncio.get_running_loop().create_task(wait_for_event(event, 60))
    await asyncio.sleep(0)
    event.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
