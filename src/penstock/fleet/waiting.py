"""How the room's endless loops wait: for an event, but not longer than until their next turn."""

import asyncio
import contextlib


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Until the event or the time, whichever is first."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
