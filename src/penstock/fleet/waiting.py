"""Waits for an event with a timeout, for the loops of this room."""

import asyncio
import contextlib


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Wait until the event is set or `seconds` have passed, whichever is first."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
